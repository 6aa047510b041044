//! Nothing that is secret is shown.

use pillarbox_relay::config::{Input, RelayConfig};
use pillarbox_relay::{Relay, RelayParts, UrlSinks};

const CANARY: &str = "c4n4ry";

#[track_caller]
fn load(text: &str) -> Result<RelayConfig, String> {
    let file = Some(("relay.toml".to_owned(), text.replace("CANARY", CANARY)));
    RelayConfig::load(&Input { file, ..Input::default() })
        .map_err(|problems| format!("{problems} {problems:?}"))
}

/// PBX-023
#[test]
fn problems_do_not_repeat_secrets() {
    for text in [
        "database-url = 'CANARY'",
        "database-url = 'oracle://me:CANARY@h/d'",
        "database-url = ['CANARY']",
        "api-token = 7\nadmin-token = 'CANARY'\nadmin = '0.0.0.0:1'",
        "webhook-secrets = [1, 'CANARY']",
        "api-base-url = 'me:CANARY@h'",
        "poll-interval = 'CANARY'\nlayout = 'CANARY'\nadmin = 'CANARY'\npoll-batch-size = 'CANARY'",
        "api-token = 'CANARY",
        "api-token = CANARY",
        "[[source]]\nname = 'CANARY CANARY'",
    ] {
        let problems = load(text).unwrap_err();
        assert!(!problems.contains(CANARY), "{text}: {problems}");
    }
}

/// PBX-023
#[test]
fn a_configuration_does_not_show_its_secrets() {
    for url in [
        "postgres://me:CANARY@h/CANARY?password=CANARY",
        "postgres:me:CANARY@h/d",
        "postgres://me:CA?NARY@h/d",
        "mongodb://me:CANARY@h,i/d",
    ] {
        let config = load(&format!(
            "database-url = '{url}'\nsink = 'webhook+https://me:CANARY@h/CANARY?x=CANARY'\n\
             api-token = 'CANARY'\nadmin-token = 'CANARY-of-the-tests'\nadmin = '0.0.0.0:1'\nwebhook-secrets = ['CANARY']\n\
             otlp-endpoint = 'https://me:CANARY@h/CANARY'\notlp-headers = 'key=CANARY'\n\
             api-proxy = 'http://me:CANARY@localhost/CANARY'"
        ))
        .unwrap();
        let debug = format!("{config:?}");
        assert!(!debug.contains(CANARY), "{debug}");
        let shown = config.sources[0].shown.iter().find(|shown| shown.key == "sink").unwrap();
        assert_eq!(shown.value, "webhook+https://h");
    }
}

/// PBX-152
#[test]
fn headers_for_a_collector_go_out_without_tls_to_this_machine_only() {
    let load = |endpoint: &str, more: &str| {
        load(&format!(
            "database-url = 'sqlite:x.db'\nsink = 'stdout:'\notlp-endpoint = '{endpoint}'\n{more}\n"
        ))
    };
    let headers = "otlp-headers = 'api-key=CANARY'";
    for endpoint in ["http://collector.example.com:4318", "http://10.0.0.1:4318"] {
        let refused = load(endpoint, headers).unwrap_err();
        assert!(refused.contains("allow-cleartext") && !refused.contains(CANARY), "{refused}");
        assert!(load(endpoint, "").is_ok());
        assert!(load(endpoint, &format!("{headers}\nallow-cleartext = true")).is_ok());
    }
    assert!(load("http://me:CANARY@collector.example.com:4318", "").is_err());
    for endpoint in ["https://collector.example.com:4318", "http://localhost:4318", "http://[::1]:4318"] {
        assert!(load(endpoint, headers).is_ok(), "{endpoint}");
    }
}

/// PBX-152: the sinks refuse; the key that allows it reaches them.
#[test]
fn a_token_without_tls_is_refused_when_the_configuration_is_checked() {
    let check = |more: &str| {
        let config = load(&format!(
            "database-url = 'sqlite:x.db'\napi-base-url = 'http://api.example.com'\napi-token = 'CANARY'\n{more}"
        ));
        pillarbox_relay::check_sinks(&config.unwrap()).map_err(|problems| problems.to_string())
    };
    let refused = check("").unwrap_err();
    assert!(refused.contains("allow-cleartext") && !refused.contains(CANARY), "{refused}");
    assert_eq!(check("allow-cleartext = true"), Ok(()));
}

/// PBX-152: a warning, because a refusal would stop relays in private networks at an upgrade.
#[test]
fn a_database_elsewhere_without_a_word_on_tls_is_warned_of_with_the_setting() {
    let warnings = |url: &str| {
        let config = load(&format!("database-url = '{url}'\nsink = 'stdout:'")).unwrap();
        config.warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    for (url, setting) in [
        ("postgres://me:CANARY@db.example.com/d", "sslmode=verify-full"),
        ("postgres://10.0.0.1/d", "sslmode=verify-full"),
        ("mysql://me:CANARY@db.example.com/d", "ssl-mode=VERIFY_IDENTITY"),
        ("mongodb://db.example.com/d", "tls=true"),
        ("mongodb://localhost,db.example.com/d", "tls=true"),
    ] {
        let warnings = warnings(url);
        assert_eq!(warnings.len(), 1, "{url}: {warnings:?}");
        assert!(warnings[0].starts_with("database-url (line 1 of "), "{warnings:?}");
        assert!(warnings[0].contains(setting) && !warnings[0].contains(CANARY), "{warnings:?}");
    }
    for url in [
        "postgres://localhost/d",
        "postgres:///d?host=/run/postgresql",
        "postgres://db.example.com/d?sslmode=verify-full",
        "postgres://db.example.com/d?sslmode=disable",
        "mysql://127.0.0.1/d",
        "mysql://db.example.com/d?ssl-mode=DISABLED",
        "mongodb://db.example.com/d?tls=true",
        "mongodb://db.example.com/d?tls=false",
        "mongodb+srv://db.example.com/d",
        "sqlite:x.db",
    ] {
        assert_eq!(warnings(url), Vec::<String>::new(), "{url}");
    }
}

/// PBX-161
#[cfg(unix)]
#[test]
fn files_with_secrets_that_every_user_can_read_are_warned_of() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str, mode| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.display().to_string()
    };
    let warned = |text: &str, mode| {
        let text = format!("sink = 'stdout:'\n{text}");
        let file = Some((write("relay.toml", &text, mode), text));
        let config = RelayConfig::load(&Input { file, ..Input::default() });
        config
            .unwrap_or_else(|problems| panic!("{problems}"))
            .warnings
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    for (mode, count) in [(0o644, 1), (0o604, 1), (0o640, 0), (0o600, 0)] {
        let token = write("token", "t0ken", mode);
        let found = warned(&format!("database-url = 'sqlite:x.db'\napi-token-file = '{token}'"), 0o644);
        assert_eq!(found.len(), count, "{mode:o}: {found:?}");
        assert!(found.iter().all(|warning| warning.contains("api-token-file") && warning.contains("chmod")));
        let found = warned("database-url = 'sqlite:x.db'\napi-token = 't0ken'", mode);
        assert_eq!(found.len(), count, "{mode:o}: {found:?}");
        let found = warned("database-url = 'postgres://me:s3cret@localhost/d'", mode);
        assert_eq!(found.len(), count, "{mode:o}: {found:?}");
        let found = warned("database-url = 'postgres://me@localhost/d'", mode);
        assert_eq!(found.len(), 0, "no secret: {found:?}");
    }
}

/// PBX-161: whatever the file says of its length.
#[test]
fn files_with_secrets_are_read_up_to_a_bound() {
    let text = "database-url = 'sqlite:x.db'\nsink = 'stdout:'\nadmin = '127.0.0.1:0'\nadmin-token-file = '/dev/zero'";
    let refused = load(text).unwrap_err();
    assert!(refused.contains("admin-token-file") && refused.contains("64 KiB"), "{refused}");
}

/// PBX-023
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_away_is_told_of_without_its_password() {
    let url = format!("postgres://me:{CANARY}@127.0.0.1:1/d?connect_timeout=1");
    let config = load(&format!("database-url = '{url}'\napi-base-url = 'http://localhost:1'")).unwrap();
    let sinks = std::sync::Arc::new(UrlSinks::default());
    let mut relay = Relay::start(RelayParts { config, sinks }).await.unwrap();
    let trouble = relay.troubles().remove(0);
    assert!(trouble.is_transient(), "{trouble}");
    assert!(!format!("{trouble} {trouble:?}").contains(CANARY), "{trouble:?}");
    relay.close().await;
}
