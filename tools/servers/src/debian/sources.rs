//! Derives the source of a suite from this machine's sources for its own release.

/// The name used for the unstable release, which has no code name.
const UNSTABLE: &str = "sid";

/// Names that a source may use for the machine's release instead of its code name.
const RELEASES: [&str; 4] = ["stable", "testing", "unstable", "sid"];

/// The code name of the release, if `os-release` is Debian's.
pub(super) fn codename(os_release: &str) -> Option<&str> {
    let value = |key: &str| {
        let lines = os_release.lines().filter_map(|line| line.split_once('='));
        lines.filter(|(name, _)| *name == key).map(|(_, value)| value.trim_matches('"')).next()
    };
    value("ID").filter(|id| *id == "debian")?;
    // Unstable has no code name.
    Some(value("VERSION_CODENAME").unwrap_or(UNSTABLE))
}

/// A source of the suite in the `.sources` format, derived from one of the machine.
pub(super) fn from_stanzas(text: &str, codename: &str, suite: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let stanzas = lines.split(|line| line.trim().is_empty());
    stanzas.filter(|stanza| is_debian(stanza, codename)).map(|stanza| moved(stanza, suite)).next()
}

/// A source of the suite in the `.list` format, derived from one of the machine.
pub(super) fn from_lines(text: &str, codename: &str, suite: &str) -> Option<String> {
    let words = |line: &str| line.split_whitespace().map(String::from).collect::<Vec<_>>();
    text.lines().map(words).find_map(|words| {
        let (kind, rest) = words.split_first()?;
        let has_options = rest.first()?.starts_with('[');
        let options = rest.iter().position(|word| word.ends_with(']')).filter(|_| has_options);
        let (options, rest) = rest.split_at(options.map_or(0, |last| last + 1));
        let [uri, own, components @ ..] = rest else { return None };
        let fits = kind == "deb" && is_archive(uri) && is_release(own, codename);
        let options = options.iter().map(|option| format!("{option} ")).collect::<String>();
        (fits && components.iter().any(|component| component == "main"))
            .then(|| format!("deb {options}{uri} {suite} main\n"))
    })
}

fn is_debian(stanza: &[&str], codename: &str) -> bool {
    let value = |key: &str| stanza.iter().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    let has =
        |key, fits: &dyn Fn(&str) -> bool| value(key).is_some_and(|value| value.split_whitespace().any(fits));
    let is_off = has("Enabled", &|word| ["no", "false", "0"].contains(&word));
    !is_off
        && has("Types", &|word| word == "deb")
        && has("URIs", &is_archive)
        && has("Suites", &|word| is_release(word, codename))
        && has("Components", &|word| word == "main")
}

/// The same archive and keys with another suite. The continuation lines of a replaced field are removed too.
fn moved(stanza: &[&str], suite: &str) -> String {
    let mut text = format!("Types: deb\nSuites: {suite}\nComponents: main\n");
    let mut keeps = false;
    for line in stanza {
        if !line.starts_with([' ', '\t']) {
            keeps = ["URIs:", "Signed-By:", "Trusted:"].iter().any(|key| line.starts_with(key));
        }
        if keeps {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// Whether this is Debian's archive or a mirror of it, not another source for the same release.
fn is_archive(uri: &str) -> bool {
    uri.trim_end_matches('/').rsplit('/').next().is_some_and(|last| last.starts_with("debian"))
}

fn is_release(suite: &str, codename: &str) -> bool {
    suite == codename || RELEASES.contains(&suite)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_debian_itself_has_a_code_name_here() {
        assert_eq!(codename("NAME=\"Debian\"\nID=debian\nVERSION_CODENAME=bookworm\n"), Some("bookworm"));
        assert_eq!(codename("ID=debian\n"), Some("sid"));
        assert_eq!(codename("ID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=noble\n"), None);
        assert_eq!(codename(""), None);
    }

    #[test]
    fn a_stanza_keeps_its_place_and_keys() {
        let text = "Types: deb\nURIs: http://other.example/linux\nSuites: bookworm\nComponents: main\n\n\
            # the archive\nTypes: deb deb-src\nURIs: http://mirror.example/debian\n\
            Suites: bookworm\n bookworm-updates\nComponents: main contrib\nSigned-By:\n -----BEGIN\n .\n -----END\n";
        let sid = "Types: deb\nSuites: sid\nComponents: main\nURIs: http://mirror.example/debian\n\
            Signed-By:\n -----BEGIN\n .\n -----END\n";
        assert_eq!(from_stanzas(text, "bookworm", "sid").as_deref(), Some(sid));
        assert_eq!(from_stanzas(text, "trixie", "sid"), None);
        assert_eq!(from_stanzas(&text.replace("Suites:", "Enabled: no\nSuites:"), "bookworm", "sid"), None);
    }

    #[test]
    fn a_line_keeps_its_place_and_options() {
        let text = "# deb http://mirror.example/debian bookworm main\n\
            deb http://mirror.example/debian-security bookworm-security main\n\
            deb https://other.example/linux/debian bookworm stable\n\
            deb [arch=amd64 signed-by=/a/key.gpg] http://mirror.example/debian/ bookworm main contrib\n";
        let sid = "deb [arch=amd64 signed-by=/a/key.gpg] http://mirror.example/debian/ sid main\n";
        assert_eq!(from_lines(text, "bookworm", "sid").as_deref(), Some(sid));
        let plain = from_lines("deb http://mirror.example/debian stable main", "trixie", "bookworm");
        assert_eq!(plain.as_deref(), Some("deb http://mirror.example/debian bookworm main\n"));
        assert_eq!(from_lines("deb\n\ndeb [a=b", "trixie", "sid"), None);
    }
}
