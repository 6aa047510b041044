//! Nothing that is secret is shown.

use pillarbox_relay::config::{Input, RelayConfig};
use pillarbox_relay::{Relay, RelayParts, UrlSinks};

const CANARY: &str = "c4n4ry";

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
    let config = load(
        "database-url = 'postgres://me:CANARY@h/d?password=CANARY'\nsink = 'webhook+https://me:CANARY@h/CANARY?x=CANARY'\n\
         api-token = 'CANARY'\nadmin-token = 'CANARYCANARYCANARY'\nadmin = '0.0.0.0:1'\nwebhook-secrets = ['CANARY']",
    )
    .unwrap();
    let shown = &config.sources[0].shown;
    let url = shown.iter().find(|shown| shown.key == "database-url").unwrap();
    assert_eq!(url.value, "postgres://h/d");
    let debug = format!("{config:?}").replace("webhook+https://h/c4n4ry", "");
    assert!(!debug.contains(CANARY), "{debug}");
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
