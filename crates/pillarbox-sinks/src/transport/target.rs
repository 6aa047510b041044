//! The URL of an endpoint, and the URLs of events below it.

use pillarbox::Event;
use reqwest::Url;

use crate::error::SinkError;
use crate::template::Template;

/// The schemes that a target may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Schemes {
    /// Only https.
    Https,
    /// https and http.
    Any,
}

/// The URL of an endpoint. Scheme, host and port are fixed; only path and query can depend on the event.
pub(crate) struct Target {
    url: Url,
    /// `https://host:port`, without a trailing slash.
    origin: String,
    /// The path of the URL, without a trailing slash.
    path: String,
}

impl Target {
    /// Parses and checks the URL of an endpoint.
    pub(crate) fn parse(text: &str, schemes: Schemes) -> Result<Self, SinkError> {
        let url = Url::parse(text).map_err(|error| SinkError::url(format!("can't be read: {error}")))?;
        match (url.scheme(), schemes) {
            ("https", _) | ("http", Schemes::Any) => {}
            ("http", Schemes::Https) => {
                return Err(SinkError::url("is plain http: use https, or allow http in the egress rules"));
            }
            _ => return Err(SinkError::url("is neither http nor https")),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(SinkError::url("holds a user or password: set the token instead"));
        }
        if url.fragment().is_some() {
            return Err(SinkError::url("has a fragment (`#…`), which is never sent"));
        }
        if url.host_str().is_some_and(|host| host.contains(['{', '}', '%'])) {
            return Err(SinkError::url("has a place in its host: places stand after it only"));
        }
        let origin = url.origin().ascii_serialization();
        let path = url.path().trim_end_matches('/').to_owned();
        Ok(Self { url, origin, path })
    }

    /// The configured URL.
    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// The URL of a path below the endpoint's path, with the endpoint's query.
    pub(crate) fn below(&self, path: &str) -> Result<Url, String> {
        let query = self.url.query().map_or_else(String::new, |query| format!("?{query}"));
        self.at(&format!("{}{path}{query}", self.path))
    }

    /// The URL of an event, by a template below the endpoint's path. An error is the event's fault.
    pub(crate) fn rendered_below(&self, template: &Template, event: &Event) -> Result<Url, String> {
        self.below(&template.render_path(event).map_err(|error| error.to_string())?)
    }

    /// The URL of an event, by a template that replaces everything after the host. An error is the event's
    /// fault.
    pub(crate) fn rendered(&self, template: &Template, event: &Event) -> Result<Url, String> {
        self.at(&template.render_path(event).map_err(|error| error.to_string())?)
    }

    fn at(&self, rest: &str) -> Result<Url, String> {
        let path = rest.split('?').next().unwrap_or_default();
        if path.split('/').any(is_dots) {
            return Err("a segment of the path would be `.` or `..`".to_owned());
        }
        Url::parse(&format!("{}{rest}", self.origin))
            .map_err(|error| format!("the path makes no URL: {error}"))
    }
}

/// Whether URL normalisation would remove this segment, or the one before it.
fn is_dots(segment: &str) -> bool {
    matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..")
}

/// Parses the template of a path, which begins with a slash and has no `.` or `..` segments.
pub(crate) fn path_template(text: &str) -> Result<Template, SinkError> {
    let bad = |reason: &str| Err(SinkError::option("destination", reason));
    if !text.starts_with('/') || text.starts_with("//") {
        return bad("a path begins with one slash");
    }
    if text.contains(['#', '\\']) || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return bad("a path has no `#`, no `\\` and no blanks");
    }
    if text.split('?').next().unwrap_or_default().split('/').any(is_dots) {
        return bad("a path has no segment `.` or `..`");
    }
    Ok(Template::parse(text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Result<Target, SinkError> {
        Target::parse(url, Schemes::Any)
    }

    #[test]
    fn paths_go_below_the_endpoints() {
        let below = |url: &str| target(url).unwrap().below("/api/a").unwrap().to_string();
        assert_eq!(below("https://h"), "https://h/api/a");
        assert_eq!(below("https://h/"), "https://h/api/a");
        assert_eq!(below("http://h:81/x/y/?k=1"), "http://h:81/x/y/api/a?k=1");
    }

    /// PBX-023
    #[test]
    fn urls_that_can_not_be_used_are_refused_without_being_shown() {
        for bad in [
            "https://user:s3cret@h/",
            "https://s3cret@h/",
            "ftp://h/?s3cret",
            "https://h/#s3cret",
            "https://:s3cret",
        ] {
            let error = target(bad).err().unwrap().to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
        assert!(Target::parse("http://h/", Schemes::Https).is_err());
    }

    #[test]
    fn an_event_leads_to_no_other_place() {
        let target = target("https://h/base").unwrap();
        let template = path_template("/in/{type}/x").unwrap();
        let at = |name: &str| {
            target
                .rendered_below(&template, &Event::text(name, "{}").build().unwrap())
                .map(|url| url.to_string())
        };
        assert_eq!(at("a").unwrap(), "https://h/base/in/a/x");
        assert_eq!(at("%2e%2e").unwrap(), "https://h/base/in/%252e%252e/x");
        assert_eq!(at("@evil?x#y").unwrap(), "https://h/base/in/%40evil%3Fx%23y/x");
        for dots in [".", "..", "../../b"] {
            assert!(at(dots).is_err());
        }
    }

    #[test]
    fn bad_path_templates_are_refused() {
        for bad in ["a", "", "//evil/a", "/a/../b", "/a/%2E%2e/b", "/a#b", "/a b", "/a\\b", "/{nothing}"] {
            assert!(path_template(bad).is_err(), "{bad}");
        }
        assert!(path_template("/a?type={type}").is_ok());
    }
}
