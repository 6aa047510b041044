//! Templates for paths, topics, subjects, routing keys and streams, filled with values of the event.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use pillarbox::Event;
use pillarbox::model::GroupKey;

/// Maximum length of a template, in bytes.
const TEMPLATE_MAX: usize = 1_024;
/// Maximum number of places in a template.
const PLACES_MAX: usize = 32;
/// Maximum length of a rendered text, in bytes.
const RENDERED_MAX: usize = 2_048;

/// Characters that are percent-encoded in a path, so that a value never adds a segment.
const OUTSIDE_SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A text with places that are filled with values of an event.
///
/// Places are `{type}`, `{aggregate-type}`, `{aggregate-id}`, `{group}`, `{tenant}`, `{id}` and
/// `{header:NAME}`. A default follows a bar, as in `{tenant|none}`, and is used if the event's value is
/// missing or empty. Write `{{` and `}}` for literal braces.
///
/// A value stays within one segment of a path and one token of a NATS subject, except for the slash of
/// `{group}` and the dots of `{type}`. `:raw` after a name, as in `{tenant:raw}`, lets the separators of that
/// value pass too.
///
/// ```
/// # use pillarbox::Event;
/// # use pillarbox_sinks::Template;
/// let topic = Template::parse("orders.{tenant|all}.{type}").unwrap();
/// let event = Event::text("placed", "{}").build().unwrap();
/// assert_eq!(topic.render_plain(&event).unwrap(), "orders.all.placed");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    segments: Vec<Segment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Text(String),
    Placeholder(Placeholder),
}

/// A place of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placeholder {
    name: Name,
    default: Option<String>,
    /// Whether the template lets separators of the event's value pass.
    is_raw: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    Type,
    AggregateType,
    AggregateId,
    Group,
    Tenant,
    Id,
    Header(String),
}

/// The reason why a text is not a valid template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTemplate {
    /// The text is empty.
    #[error("the template is empty")]
    Empty,
    /// The text is too long.
    #[error("the template has {len} bytes, and the maximum is {TEMPLATE_MAX}")]
    TooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// The text has too many places.
    #[error("the template has more than {PLACES_MAX} places")]
    TooManyPlaces,
    /// A brace is not matched.
    #[error("the brace at byte {at} is not matched; a brace itself is written twice")]
    Brace {
        /// The byte offset of the brace.
        at: usize,
    },
    /// A place has an unknown name.
    #[error(
        "{{{name}}} is not a field of an event: use type, aggregate-type, aggregate-id, group, tenant, id or header:NAME"
    )]
    UnknownPlace {
        /// The unknown name.
        name: String,
    },
}

/// The reason why a template can't be rendered for an event. This is the event's own fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// The event has no value for a place without a default.
    #[error("the event has no value for {{{place}}}, and the template no default")]
    Missing {
        /// The name of the place.
        place: String,
    },
    /// A value contains a separator that could lead to another path.
    #[error(
        "the value of {{{place}}} has a slash or a backslash, which could lead to another path; write {{{place}:raw}} to send it encoded"
    )]
    Separator {
        /// The name of the place.
        place: String,
    },
    /// A value contains a segment that leads up in a path.
    #[error("the value of {{{place}}} has a segment `.` or `..`, which leads to another path")]
    Climbs {
        /// The name of the place.
        place: String,
    },
    /// The rendered text is too long.
    #[error("the text made by the template is longer than {RENDERED_MAX} bytes")]
    TooLong,
}

impl Template {
    /// Parses a template.
    pub fn parse(text: &str) -> Result<Self, BadTemplate> {
        if text.is_empty() {
            return Err(BadTemplate::Empty);
        }
        if text.len() > TEMPLATE_MAX {
            return Err(BadTemplate::TooLong { len: text.len() });
        }
        let mut segments = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(found) = rest.find(['{', '}']) {
            let at = text.len() - rest.len() + found;
            plain.push_str(&rest[..found]);
            let brace = &rest[found..=found];
            let after = &rest[found + 1..];
            rest = if let Some(after) = after.strip_prefix(brace) {
                plain.push_str(brace);
                after
            } else {
                let inside = (brace == "{").then(|| after.split_once('}')).flatten();
                let (inside, after) = inside.ok_or(BadTemplate::Brace { at })?;
                if !plain.is_empty() {
                    segments.push(Segment::Text(std::mem::take(&mut plain)));
                }
                segments.push(Segment::placeholder(inside, at)?);
                after
            };
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            segments.push(Segment::Text(plain));
        }
        if segments.iter().filter(|segment| matches!(segment, Segment::Placeholder(_))).count() > PLACES_MAX {
            return Err(BadTemplate::TooManyPlaces);
        }
        Ok(Self { segments })
    }

    /// Fills the places from an event. `escape` applies to values and defaults, not to the text of the
    /// template; it gets the text so far too.
    pub(crate) fn render<F>(&self, event: &Event, escape: F) -> Result<String, RenderError>
    where
        F: for<'v> Fn(&str, Value<'v>) -> Result<Cow<'v, str>, RenderError>,
    {
        let mut out = String::new();
        for segment in &self.segments {
            match segment {
                Segment::Text(text) => out.push_str(text),
                Segment::Placeholder(place) => {
                    let given = place.name.of(event);
                    let text = given.as_deref().or(place.default.as_deref());
                    let text = text.ok_or_else(|| RenderError::Missing { place: place.name.to_text() })?;
                    let is_default = given.is_none();
                    out.push_str(&escape(&out, Value { text, place, is_default })?);
                }
            }
            if out.len() > RENDERED_MAX {
                return Err(RenderError::TooLong);
            }
        }
        Ok(out)
    }

    /// Fills the places without escaping.
    pub fn render_plain(&self, event: &Event) -> Result<String, RenderError> {
        self.render(event, |_, value| Ok(Cow::Borrowed(value.text)))
    }

    /// Fills the places for the path and query of a URL. Values are percent-encoded, so that a value never
    /// adds a segment, and those of the path must not become segments when a server decodes the path before
    /// it looks for slashes.
    pub fn render_path(&self, event: &Event) -> Result<String, RenderError> {
        self.render(event, |before, value| {
            if !before.contains('?') {
                value.check_segment()?;
            }
            Ok(utf8_percent_encode(value.text, OUTSIDE_SEGMENT).into())
        })
    }

    /// The text of a template without places, which is the same for every event.
    #[must_use]
    pub fn as_constant(&self) -> Option<&str> {
        match self.segments.as_slice() {
            [Segment::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether the template begins with a text, so that an event never decides on the beginning.
    #[cfg(feature = "redis")]
    pub(crate) fn has_prefix(&self) -> bool {
        matches!(self.segments.first(), Some(Segment::Text(_)))
    }

    /// Whether the template has no places.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        self.as_constant().is_some()
    }
}

impl Segment {
    fn placeholder(inside: &str, at: usize) -> Result<Self, BadTemplate> {
        if inside.contains('{') {
            return Err(BadTemplate::Brace { at });
        }
        let (name, default) = match inside.split_once('|') {
            Some((name, default)) => (name, Some(default.to_owned())),
            None => (inside, None),
        };
        let (name, is_raw) = name.strip_suffix(":raw").map_or((name, false), |name| (name, true));
        let name = Name::parse(name).ok_or_else(|| BadTemplate::UnknownPlace { name: name.to_owned() })?;
        Ok(Self::Placeholder(Placeholder { name, default, is_raw }))
    }
}

/// The value that fills a place: the event's, or the default of the template.
#[derive(Clone, Copy)]
pub(crate) struct Value<'v> {
    pub(crate) text: &'v str,
    place: &'v Placeholder,
    is_default: bool,
}

impl Value<'_> {
    /// Whether dots of the value may separate tokens: types have dots by convention.
    #[cfg(feature = "nats")]
    pub(crate) fn may_have_dots(self) -> bool {
        self.is_default || self.place.is_raw || self.place.name == Name::Type
    }

    fn check_segment(self) -> Result<(), RenderError> {
        let separates = |letter: char| matches!(letter, '/' | '\\');
        if self.is_default || !self.text.contains(separates) {
            return Ok(());
        }
        let place = || self.place.name.to_text();
        if self.text.split(separates).any(|segment| matches!(segment, "." | "..")) {
            return Err(RenderError::Climbs { place: place() });
        }
        // The key of an aggregate's group is `TYPE/ID`.
        if self.place.is_raw || self.place.name == Name::Group {
            Ok(())
        } else {
            Err(RenderError::Separator { place: place() })
        }
    }
}

impl Name {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "type" => Self::Type,
            "aggregate-type" => Self::AggregateType,
            "aggregate-id" => Self::AggregateId,
            "group" => Self::Group,
            "tenant" => Self::Tenant,
            "id" => Self::Id,
            _ => Self::Header(name.strip_prefix("header:").filter(|name| !name.is_empty())?.to_owned()),
        })
    }

    fn to_text(&self) -> String {
        match self {
            Self::Type => "type".to_owned(),
            Self::AggregateType => "aggregate-type".to_owned(),
            Self::AggregateId => "aggregate-id".to_owned(),
            Self::Group => "group".to_owned(),
            Self::Tenant => "tenant".to_owned(),
            Self::Id => "id".to_owned(),
            Self::Header(name) => format!("header:{name}"),
        }
    }

    fn of<'e>(&self, event: &'e Event) -> Option<Cow<'e, str>> {
        let value = match self {
            Self::Type => Some(Cow::Borrowed(event.event_type())),
            Self::AggregateType => Some(Cow::Borrowed(event.aggregate_type())),
            Self::AggregateId => event.aggregate_id().map(Cow::Borrowed),
            Self::Group => GroupKey::of(event).map(|group| Cow::Owned(group.as_str().to_owned())),
            Self::Tenant => event.tenant_id().map(Cow::Borrowed),
            Self::Id => Some(Cow::Borrowed(event.id().as_str())),
            Self::Header(name) => event.headers().get(name).map(Cow::Borrowed),
        };
        value.filter(|value| !value.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn event() -> Event {
        Event::text("placed", "{}")
            .id("e-1")
            .aggregate("order", "7/../8")
            .tenant("acme")
            .header("region", "eu west")
            .build()
            .unwrap()
    }

    fn rendered(text: &str) -> Result<String, RenderError> {
        Template::parse(text).unwrap().render_plain(&event())
    }

    #[test]
    fn places_are_filled_from_the_event() {
        let all = "{type} {aggregate-type} {aggregate-id} {group} {tenant} {id} {header:region}";
        assert_eq!(rendered(all).unwrap(), "placed order 7/../8 order/7/../8 acme e-1 eu west");
        assert_eq!(rendered("a{{b}}c{{{type}}}").unwrap(), "a{b}c{placed}");
        assert_eq!(rendered("plain").unwrap(), "plain");
        assert_eq!(Template::parse("pl{{ain").unwrap().as_constant(), Some("pl{ain"));
        assert!(Template::parse("plain{{").unwrap().is_constant());
        assert!(!Template::parse("{id}").unwrap().is_constant());
    }

    #[test]
    fn a_missing_value_takes_the_default_or_is_an_error_that_names_the_place() {
        assert_eq!(rendered("{header:none|x y}").unwrap(), "x y");
        assert_eq!(rendered("{header:none|}").unwrap(), "");
        let missing = rendered("{header:none}").unwrap_err();
        assert_eq!(missing, RenderError::Missing { place: "header:none".into() });
        let bare = Event::text("t", "{}").build().unwrap();
        for place in ["tenant", "group", "aggregate-id"] {
            let template = Template::parse(&format!("{{{place}}}")).unwrap();
            let missing = template.render_plain(&bare).unwrap_err();
            assert_eq!(missing, RenderError::Missing { place: place.into() });
        }
        let empty = Event::text("t", "{}").header("region", "").build().unwrap();
        let template = Template::parse("{header:region|eu}").unwrap();
        assert_eq!(template.render_plain(&empty).unwrap(), "eu");
    }

    #[test]
    fn in_a_path_values_make_no_segments() {
        let template = Template::parse("/in/{type}/{header:region}").unwrap();
        assert_eq!(template.render_path(&event()).unwrap(), "/in/placed/eu%20west");
        let odd = Event::text("a?b#c%2fü", "{}").build().unwrap();
        let path = Template::parse("/{type}").unwrap().render_path(&odd).unwrap();
        assert_eq!(path, "/a%3Fb%23c%252f%C3%BC");
    }

    /// PBX-156
    #[test]
    fn in_a_path_a_decoded_value_makes_no_segments_either() {
        let path = |template: &str, tenant: &str| {
            let event = Event::text("t", "{}").tenant(tenant).aggregate("order", "7").build().unwrap();
            Template::parse(template).unwrap().render_path(&event)
        };
        let place = || "tenant".to_owned();
        for slash in ["a/b", "a\\b", "/"] {
            assert_eq!(path("/{tenant}", slash), Err(RenderError::Separator { place: place() }), "{slash}");
        }
        assert_eq!(path("/{tenant:raw}", "a/b").unwrap(), "/a%2Fb");
        assert_eq!(path("/{group}", "t").unwrap(), "/order%2F7");
        assert_eq!(path("/x?tenant={tenant}", "a/../b").unwrap(), "/x?tenant=a%2F..%2Fb");
        assert_eq!(path("/{header:none|a/b}", "t").unwrap(), "/a%2Fb", "a default is the operator's");
        for up in ["../../admin", "a/..", "..\\b", "./a"] {
            assert_eq!(path("/{tenant}", up), Err(RenderError::Climbs { place: place() }), "{up}");
            assert_eq!(path("/{tenant:raw}", up), Err(RenderError::Climbs { place: place() }), "{up}");
        }
    }

    #[test]
    fn bad_templates_say_what_is_wrong() {
        assert_eq!(Template::parse(""), Err(BadTemplate::Empty));
        assert_eq!(Template::parse(&"x".repeat(1_025)), Err(BadTemplate::TooLong { len: 1_025 }));
        assert_eq!(Template::parse("ab{type"), Err(BadTemplate::Brace { at: 2 }));
        assert_eq!(Template::parse("ab}"), Err(BadTemplate::Brace { at: 2 }));
        assert_eq!(Template::parse("{a{b}"), Err(BadTemplate::Brace { at: 0 }));
        for unknown in ["", "Type", "header:", "payload"] {
            let bad = Template::parse(&format!("{{{unknown}}}"));
            assert_eq!(bad, Err(BadTemplate::UnknownPlace { name: unknown.into() }));
        }
        assert_eq!(Template::parse(&"{id}".repeat(33)), Err(BadTemplate::TooManyPlaces));
    }

    #[test]
    fn what_comes_out_is_bounded() {
        let long = Event::text("t", "{}").header("h", "x".repeat(1_500)).build().unwrap();
        let template = Template::parse("{header:h}{header:h}").unwrap();
        assert_eq!(template.render_plain(&long), Err(RenderError::TooLong));
    }

    proptest! {
        #[test]
        fn no_value_leaves_its_segment(value in ".{0,40}") {
            let event = Event::text("t", "{}").header("h", value.replace('\0', "")).build().unwrap();
            let path = Template::parse("/a/{header:h|none}/b").unwrap().render_path(&event);
            prop_assert_eq!(path.is_err(), value.contains(['/', '\\']));
            let Ok(path) = path else { return Ok(()) };
            let inner = path.strip_prefix("/a/").unwrap().strip_suffix("/b").unwrap();
            let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~%".contains(&b);
            prop_assert!(inner.bytes().all(plain), "{}", path);
        }

        #[test]
        fn any_text_is_a_template_or_an_error(text in "[a-z{}|:]{0,30}") {
            if let Ok(template) = Template::parse(&text) {
                let _ = template.render_plain(&event());
            }
        }
    }
}
