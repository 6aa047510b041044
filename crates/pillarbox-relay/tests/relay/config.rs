//! What a configuration comes to, and everything that is wrong with one.

use std::time::Duration;

use pillarbox::engine::{OnDead, Ungrouped};
use pillarbox::model::Layout;
use pillarbox::port::OnDone;
use pillarbox_relay::Secret;
use pillarbox_relay::config::{
    Input, KEYS, KeyScope, RelayConfig, SinkKind, SourceConfig, default_file, json_schema, reference,
};
use pillarbox_sinks::TokenSource;

const NEEDED: &str = "database-url = 'sqlite:x.db'\napi-base-url = 'http://localhost:1'\n";

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn input(text: &str, variables: &[(&str, &str)], flags: &[(&str, &str)]) -> Input {
    let file = Some(("relay.toml".to_owned(), text.to_owned()));
    Input { file, variables: owned(variables), flags: owned(flags) }
}

#[track_caller]
fn loaded(text: &str) -> RelayConfig {
    RelayConfig::load(&input(text, &[], &[])).unwrap_or_else(|problems| panic!("{problems}"))
}

#[track_caller]
fn source(text: &str) -> SourceConfig {
    loaded(text).sources.remove(0)
}

#[track_caller]
fn problems(text: &str) -> Vec<String> {
    let problems = RelayConfig::load(&input(text, &[], &[])).expect_err("it is wrong");
    problems.0.iter().map(ToString::to_string).collect()
}

/// RLY-050
#[test]
fn every_key_of_the_seed_has_its_name_and_default() {
    for (name, default) in [
        ("enabled", Some("true")),
        ("poll-interval", Some("\"1s\"")),
        ("poll-batch-size", Some("500")),
        ("api-batch-size", Some("100")),
        ("max-concurrent-groups", Some("10")),
        ("global-buffer-size", Some("1000")),
        ("database-type", None),
        ("events-table", Some("\"outbox_events\"")),
        ("dispatch-jobs-table", Some("\"outbox_dispatch_jobs\"")),
        ("api-base-url", None),
        ("api-token", None),
        ("max-retries", Some("3")),
        ("processing-timeout-seconds", Some("300")),
        ("mongo-database", Some("\"outbox\"")),
    ] {
        let key = KEYS.iter().find(|key| key.name == name).unwrap_or_else(|| panic!("{name} is a key"));
        assert_eq!(key.default, default, "{name}");
    }
    let source = source(NEEDED);
    assert!(source.enabled);
    assert_eq!(source.engine.poll_interval, Duration::from_secs(1));
    assert_eq!((source.engine.fetch_rows, source.engine.batch), (500, 100));
    assert_eq!((source.engine.workers, source.engine.cold_rows), (10, 1_000));
    assert_eq!(source.events_table.unwrap().as_str(), "outbox_events");
    assert_eq!(source.dispatch_jobs_table.unwrap().as_str(), "outbox_dispatch_jobs");
    assert_eq!(
        (source.engine.max_attempts - 1, source.engine.processing_timeout),
        (3, Duration::from_secs(300))
    );
    assert_eq!((source.engine.on_dead, source.engine.on_done), (OnDead::Skip, OnDone::Keep));
    assert_eq!((source.engine.ungrouped, source.sink.kind), (Ungrouped::Default, SinkKind::Api));
    assert_eq!(
        (source.sink.options.connect_timeout, source.sink.options.timeout),
        (Duration::from_secs(10), Duration::from_secs(30))
    );
    assert_eq!((source.retry.base, source.retry.max), (Duration::from_secs(1), Duration::from_secs(60)));
}

/// PBX-021
#[test]
fn metrics_are_pushed_to_the_path_of_otlp() {
    let url = |endpoint: &str| {
        let otlp = loaded(&format!("{NEEDED}otlp-endpoint = '{endpoint}'\n")).otlp.unwrap();
        assert_eq!(otlp.interval, Duration::from_secs(60));
        otlp.url.reveal().to_owned()
    };
    for endpoint in ["http://c:4318", "http://c:4318/", "http://c:4318/v1/metrics"] {
        assert_eq!(url(endpoint), "http://c:4318/v1/metrics", "{endpoint}");
    }
    assert_eq!(url("https://c/otlp"), "https://c/otlp/v1/metrics");
    assert!(loaded(NEEDED).otlp.is_none());
    let wrong = "otlp-endpoint = 'localhost:4318'\notlp-headers = 'api key=x'\notlp-interval = '1ms'\n";
    let problems = problems(&format!("{NEEDED}{wrong}"));
    for key in ["otlp-endpoint", "otlp-headers", "otlp-interval"] {
        assert!(problems.iter().any(|problem| problem.contains(key)), "{key}: {problems:?}");
    }
}

/// RLY-050
#[test]
fn the_seeds_file_loads_with_its_prefix() {
    let text = "[outbox-processor]\nenabled = true\npoll-interval = '2s'\npoll-batch-size = 50\napi-batch-size = 7\n\
        max-concurrent-groups = 3\nglobal-buffer-size = 99\ndatabase-type = 'MONGODB'\nevents-table = 'e'\n\
        dispatch-jobs-table = 'd'\napi-base-url = 'https://api.example.com'\napi-token = 't'\nmax-retries = 5\n\
        processing-timeout-seconds = 60\nmongo-database = 'shop'\ndatabase-url = 'mongodb://me:pw@h1,h2/?tls=true'";
    let source = source(text);
    assert_eq!(source.engine.poll_interval, Duration::from_secs(2));
    assert_eq!((source.engine.fetch_rows, source.engine.batch, source.engine.max_attempts), (50, 7, 6));
    assert_eq!(source.layout, Some(Layout::Flowcatalyst));
    assert_eq!(source.database_url.reveal(), "mongodb://me:pw@h1,h2/shop?tls=true");
    assert_eq!(source.sink.options.token, Some(TokenSource::Text(Secret::new("t"))));
}

/// RLY-050: what the table of keys lists is what the types of the values know.
#[test]
fn every_listed_word_is_taken_in_any_case() {
    for key in KEYS {
        for word in
            key.kind.words().iter().flat_map(|word| [word.to_ascii_lowercase(), word.to_ascii_uppercase()])
        {
            let given = [(key.name, word.as_str())];
            let loaded = RelayConfig::load(&input(NEEDED, &[], &given));
            let problems = loaded.map_or_else(|problems| problems.to_string(), |_| String::new());
            assert!(!problems.contains("it must be"), "{problems}");
        }
    }
}

/// RLY-050
#[test]
fn a_second_sink_is_one_problem_and_not_two() {
    let wrong = problems(&format!("{NEEDED}sink = 'stdout:'\n"));
    assert_eq!(wrong, ["sink (line 3 of relay.toml): api-base-url is set too: events go to one of them"]);
}

/// RLY-050: a flag over a variable over the file over the default.
#[test]
fn a_flag_goes_over_a_variable_and_a_variable_over_the_file() {
    let of = |variables: &[(&str, &str)], flags: &[(&str, &str)]| {
        let text = format!("{NEEDED}poll-batch-size = 11\n");
        RelayConfig::load(&input(&text, variables, flags)).unwrap().sources[0].engine.fetch_rows
    };
    assert_eq!(source(NEEDED).engine.fetch_rows, 500);
    assert_eq!(of(&[], &[]), 11);
    assert_eq!(of(&[("poll-batch-size", "12")], &[]), 12);
    assert_eq!(of(&[("poll-batch-size", "12")], &[("poll-batch-size", "13")]), 13);
    assert_eq!(of(&[], &[("poll-batch-size", "13")]), 13);
}

/// A way to say something takes the place of another way to say it in a lower layer.
#[test]
fn another_way_to_name_a_database_or_sink_takes_the_place_of_the_lower_one() {
    let config = RelayConfig::load(&input(NEEDED, &[], &[("sink", "stdout:")])).unwrap();
    assert_eq!(config.sources[0].sink.kind, SinkKind::Url);
    let text = "database-url-file = '/nowhere'\napi-base-url = 'http://localhost:1'";
    let config = RelayConfig::load(&input(text, &[("database-url", "sqlite:y.db")], &[])).unwrap();
    assert_eq!(config.sources[0].database_url.reveal(), "sqlite:y.db");
}

/// RLY-051: one start tells everything, each with its key and where it stands.
#[test]
fn every_bad_key_is_named_at_once_with_its_place() {
    let text = "poll-interval = '1 second'\npoll-batch-size = 0\nmax-retrys = 3\nenabled = 'yes'\n\
        on-dead = 'explode'\ndatabase-url = 'oracle:x'\nmax-concurrent-groups = 'ten'";
    let variables = [("api-batch-size", "ten")];
    let flags = [("lease", "1ms")];
    let problems = RelayConfig::load(&input(text, &variables, &flags)).unwrap_err();
    let lines: Vec<String> = problems.0.iter().map(ToString::to_string).collect();
    for (start, holds) in [
        ("poll-interval (line 1 of relay.toml)", "500ms, 30s"),
        ("poll-batch-size (line 2 of relay.toml)", "from 1 to 100000"),
        ("max-retrys (line 3 of relay.toml)", "is it max-retries?"),
        ("enabled (line 4 of relay.toml)", "true or false"),
        ("on-dead (line 5 of relay.toml)", "one of skip, block"),
        ("database-url (line 6 of relay.toml)", "scheme"),
        ("max-concurrent-groups (line 7 of relay.toml)", "whole number"),
        ("api-batch-size (PILLARBOX_API_BATCH_SIZE)", "whole number"),
        ("lease (--lease)", "300ms"),
        ("api-base-url", "required"),
    ] {
        let found = lines.iter().any(|line| line.starts_with(start) && line.contains(holds));
        assert!(found, "{start}: {lines:#?}");
    }
    assert_eq!(lines.len(), 10, "{lines:#?}");
}

/// RLY-051
#[test]
fn keys_that_contradict_each_other_are_told() {
    let pg = "database-url = 'postgres://h/d'\n";
    let api = "api-base-url = 'http://localhost:1'\n";
    for (text, key, what) in [
        (api.to_owned(), "database-url", "required"),
        (pg.to_owned(), "api-base-url", "required"),
        (format!("{pg}{api}sink = 'stdout:'"), "sink", "one of them"),
        (format!("{pg}{api}database-type = 'MYSQL'"), "database-type", "postgres"),
        (format!("{pg}{api}retry-min = '2m'"), "retry-max", "shorter"),
        (format!("{pg}{api}layout = 'flowcatalyst'\non-done = 'delete'"), "on-done", "purge"),
        (format!("{pg}{api}layout = 'native'\nevents-table = 'e'"), "events-table", "table"),
        (
            format!("{pg}{api}layout = 'flowcatalyst'\nevents-table = ''\ndispatch-jobs-table = ''"),
            "events-table",
            "nothing is left",
        ),
        (format!("{pg}{api}table = 'no;such'"), "table", "name"),
        (format!("{pg}api-base-url = 'ftp://h'"), "api-base-url", "http"),
        (format!("{pg}{api}admin = '0.0.0.0:7080'"), "admin", "admin-token"),
        (format!("{pg}{api}admin = 'here'"), "admin", "127.0.0.1:7080"),
        (format!("{pg}{api}admin = '0.0.0.0:1'\nadmin-token = 'short'"), "admin-token", "16"),
        (format!("{pg}{api}api-token = 'a'\napi-token-file = '/nowhere'"), "api-token-file", "api-token"),
        (format!("{api}database-url-file = '/nowhere'"), "database-url-file", "read"),
        (format!("{pg}{api}[[source]]\n"), "source", "name"),
        (format!("{pg}{api}[[source]]\nname = 'a'\n[[source]]\nname = 'a'"), "source", "\"a\""),
        (format!("{pg}{api}[[source]]\nname = 'a'\nadmin = '127.0.0.1:1'"), "admin", "whole relay"),
        (format!("{pg}{api}enabled = true\n[outbox-processor]\nenabled = true"), "enabled", "twice"),
        (format!("{pg}{api}enabled = maybe"), "file", ""),
    ] {
        let problems = problems(&text);
        let found = problems.iter().any(|line| line.starts_with(key) && line.contains(what));
        assert!(found, "{key}: {what}: {problems:#?}");
    }
}

#[test]
fn databases_are_named_in_any_case_and_mysql_is_mariadb_too() {
    for (url, word) in [
        ("postgresql://h/d", "postgresql"),
        ("postgres://h/d", "POSTGRESQL"),
        ("mysql://h/d", "MySQL"),
        ("mariadb://h/d", "mysql"),
        ("mongodb://h/d", "MongoDB"),
        ("sqlite:x.db", "SQLite"),
    ] {
        let text = format!("database-url = '{url}'\ndatabase-type = '{word}'\nsink = 'stdout:'");
        assert_eq!(source(&text).name, "default", "{url}");
    }
    assert_eq!(
        source("database-url = 'mongodb://h'\nsink = 'stdout:'").database_url.reveal(),
        "mongodb://h/outbox"
    );
}

#[test]
fn the_layout_is_that_of_the_tables_that_are_named() {
    for (text, layout) in [
        ("", None),
        ("dispatch-jobs-table = ''", None),
        ("events-table = 'e'", Some(Layout::Flowcatalyst)),
        ("table = 't'", Some(Layout::Native)),
        ("layout = 'native'\ndispatch-jobs-table = ''", Some(Layout::Native)),
        ("layout = 'Flowcatalyst'", Some(Layout::Flowcatalyst)),
    ] {
        assert_eq!(source(&format!("{NEEDED}{text}")).layout, layout, "{text}");
    }
}

#[test]
fn sources_override_the_keys_above_them() {
    let text = "api-base-url = 'http://localhost:1'\npoll-batch-size = 7\n[[source]]\nname = 'one'\n\
        database-url = 'sqlite:1.db'\n[[source]]\nname = 'two'\ndatabase-url = 'sqlite:2.db'\n\
        poll-batch-size = 8\nsink = 'stdout:'";
    let config = RelayConfig::load(&input(text, &[], &[("max-retries", "9")])).unwrap();
    let sources: Vec<_> = config.sources.iter().collect();
    let of = |f: fn(&SourceConfig) -> String| sources.iter().map(|source| f(source)).collect::<Vec<_>>();
    assert_eq!(of(|source| source.name.clone()), ["one", "two"]);
    assert_eq!(of(|source| source.engine.fetch_rows.to_string()), ["7", "8"]);
    assert_eq!(of(|source| (source.engine.max_attempts - 1).to_string()), ["9", "9"]);
    assert_eq!(of(|source| source.database_url.reveal().to_owned()), ["sqlite:1.db", "sqlite:2.db"]);
    assert_eq!(of(|source| format!("{:?}", source.sink.kind)), ["Api", "Url"]);
    let clash = RelayConfig::load(&input(text, &[("database-url", "sqlite:3.db")], &[])).unwrap_err();
    assert!(clash.to_string().starts_with("database-url (PILLARBOX_DATABASE_URL)"), "{clash}");
}

#[test]
fn the_default_file_loads_to_the_defaults() {
    let with = |text: &str| {
        let flags = [("database-url", "postgres://h/d"), ("api-base-url", "http://localhost:1")];
        let config =
            RelayConfig::load(&input(text, &[], &flags)).unwrap_or_else(|problems| panic!("{problems}"));
        format!("{config:?}")
    };
    // Where values stand is told apart; the rest must be the same.
    let without_places = |text: String| {
        let parts = text.split("from: ").map(|part| part.split_once(" }").map_or(part, |(_, rest)| rest));
        parts.collect::<String>()
    };
    let file = default_file();
    assert!(KEYS.iter().all(|key| file.contains(&format!("{} = ", key.name))));
    assert_eq!(without_places(with(&file)), without_places(with("")));
}

#[test]
fn the_schema_knows_every_key_and_its_default() {
    let schema = json_schema();
    for key in KEYS {
        let property = &schema["properties"][key.name];
        assert!(property["description"].as_str().is_some_and(|text| text.len() > 10), "{}", key.name);
        assert_eq!(property["default"].is_null(), key.default.is_none(), "{}", key.name);
        let in_source = &schema["properties"]["source"]["items"]["properties"][key.name];
        assert_eq!(in_source.is_null(), key.scope == KeyScope::Relay, "{}", key.name);
    }
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["properties"]["poll-batch-size"]["maximum"], 100_000);
}

#[test]
fn the_page_of_the_reference_is_that_of_the_code() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/relay-config.md");
    let text = std::fs::read_to_string(page).unwrap();
    assert!(
        text == reference(),
        "docs/reference/relay-config.md is old: `pillarbox config reference` prints it anew"
    );
}
