//! Takes the credentials of URLs out of texts that people read: errors, logs, reports.

const HIDDEN: &str = "***";
/// A shorter password would take unrelated words of a message with it.
const SHORTEST_PASSWORD: usize = 4;

/// User and password of a URL: what stands before its last `@`, since a password may hold `/` and `@`.
#[must_use]
pub fn credentials(url: &str) -> Option<&str> {
    let rest = url.split_once(':')?.1.trim_start_matches('/');
    rest.rsplit_once('@').map(|(credentials, _)| credentials).filter(|credentials| !credentials.is_empty())
}

/// Where a URL leads: without user, password, query and fragment.
#[must_use]
pub fn url(url: &str) -> String {
    let bare = url.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = bare.split_once("://") else { return bare.to_owned() };
    // What was cut off may have been the end of a password.
    if url[bare.len()..].contains('@') {
        return format!("{scheme}://{HIDDEN}");
    }
    let target = rest.rsplit_once('@').map_or(rest, |(_, target)| target);
    format!("{scheme}://{target}")
}

/// A text without the credentials of the URLs that stand in it.
#[must_use]
pub fn text(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        clean.push_str(before);
        let url_end = after.find(char::is_whitespace).unwrap_or(after.len());
        rest = match after[..url_end].rfind('@') {
            Some(user_end) => {
                clean.push_str(HIDDEN);
                &after[user_end..]
            }
            None => after,
        };
    }
    clean.push_str(rest);
    clean
}

/// A text without the credentials of this URL, which a driver may quote outside of a URL.
#[must_use]
pub fn quoted(text: &str, url: &str) -> String {
    let Some(credentials) = credentials(url) else { return text.to_owned() };
    let text = text.replace(credentials, HIDDEN);
    match credentials.split_once(':') {
        Some((_, password)) if password.len() >= SHORTEST_PASSWORD => text.replace(password, HIDDEN),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PBX-023
    #[test]
    fn passwords_of_urls_are_not_shown() {
        for (given, clean) in [
            ("postgres://me:pw@db/x", "postgres://***@db/x"),
            ("a 'mysql://me:p/w@x@db' b", "a 'mysql://***@db' b"),
            ("http://h/ and amqp://u:p@h", "http://h/ and amqp://***@h"),
            ("sqlite:orders.db", "sqlite:orders.db"),
        ] {
            assert_eq!(text(given), clean);
        }
    }

    /// PBX-023
    #[test]
    fn of_a_url_only_where_it_leads_is_shown() {
        for (given, shown) in [
            ("postgres://me:s3cret@db:5432/shop?sslmode=require", "postgres://db:5432/shop"),
            ("postgres://me:s3/cr@et@db/shop", "postgres://db/shop"),
            ("postgres://me:s3?cr@db/shop", "postgres://***"),
            ("https://api.example.com/v1?key=s3cret", "https://api.example.com/v1"),
            ("sqlite:shop.db", "sqlite:shop.db"),
        ] {
            assert_eq!(url(given), shown);
        }
    }

    /// PBX-023
    #[test]
    fn user_and_password_are_found_in_any_form_of_url() {
        assert_eq!(credentials("postgres://me:p@w@db/x"), Some("me:p@w"));
        assert_eq!(credentials("sqlite:me:pw@x.db"), Some("me:pw"));
        assert_eq!(credentials("sqlite:x.db"), None);
    }

    /// PBX-023
    #[test]
    fn what_drivers_quote_of_a_url_is_taken_out() {
        let url = "postgres://me:s3cret@db/x";
        assert_eq!(quoted("user me:s3cret, password s3cret", url), "user ***, password ***");
        assert_eq!(quoted("nothing", "sqlite:x.db"), "nothing");
    }
}
