//! Takes the credentials of URLs out of texts that people read: errors, logs, reports.

const HIDDEN: &str = "***";
/// A shorter password would take unrelated words of a message with it.
const SHORTEST_PASSWORD: usize = 4;

/// The part of an error text that may be logged: its first line. Further lines may quote an answer of the
/// endpoint, which may quote the event; they are kept with the event alone.
#[must_use]
pub fn first_line(error: &str) -> &str {
    error.lines().next().unwrap_or_default()
}

/// User and password of a URL: what stands before its last `@`, since a password may hold `/` and `@`.
#[must_use]
pub fn credentials(url: &str) -> Option<&str> {
    let rest = url.split_once(':')?.1.trim_start_matches('/');
    rest.rsplit_once('@').map(|(credentials, _)| credentials).filter(|credentials| !credentials.is_empty())
}

/// Where a URL leads: its scheme and its host. User, password, path and query may be secrets, so they are
/// not shown. Of a URL without `//` only the scheme is shown, except for the file of `sqlite:FILE`.
#[must_use]
pub fn url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) else {
        return HIDDEN.to_owned();
    };
    let file = rest.split('?').next().unwrap_or_default();
    if scheme.eq_ignore_ascii_case("sqlite") && !rest.contains('@') {
        return format!("{scheme}:{file}");
    }
    let Some(rest) = rest.strip_prefix("//") else { return format!("{scheme}:{HIDDEN}") };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // A password may contain these letters. Then the authority ends in it, and the host is behind it.
    if rest[authority.len()..].contains('@') {
        return format!("{scheme}://{HIDDEN}");
    }
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}")
}

/// Whether the text before a colon is the scheme of a URL and not, for example, the name of a user.
fn is_scheme(text: &str) -> bool {
    let plain = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'+' | b'-' | b'.');
    (1..=20).contains(&text.len()) && text.bytes().all(plain)
}

/// A text without the credentials of the URLs in it.
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
    fn of_a_url_only_scheme_and_host_are_shown() {
        for (given, shown) in [
            ("postgres://me:s3cret@db:5432/shop?sslmode=require", "postgres://db:5432"),
            ("postgres://me:s3/cr@et@db/shop", "postgres://***"),
            ("postgres://me:s3?cr@db/shop", "postgres://***"),
            ("postgres:me:s3cret@db/shop", "postgres:***"),
            ("mongodb://me:s3cret@a:1,b:2/shop", "mongodb://a:1,b:2"),
            ("https://api.example.com/v1?key=s3cret", "https://api.example.com"),
            ("webhook+https://hooks.example.com/services/T1/s3cret", "webhook+https://hooks.example.com"),
            ("https://api.example.com/x@s3cret", "https://***"),
            ("stdout:", "stdout:***"),
            ("me s3cret:x", "***"),
            ("s3cret", "***"),
            ("sqlite:shop.db", "sqlite:shop.db"),
            ("sqlite:/var/shop.db?key=s3cret", "sqlite:/var/shop.db"),
            ("sqlite://me:s3cret@db/shop", "sqlite://db"),
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
