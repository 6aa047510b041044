//! From a URL to a store.

use pillarbox::model::TableName;
use pillarbox::port::ErrorKind;
use pillarbox_stores::{ConnectError, MissingFile, Options, connect, schema_sql, stores};

async fn refused(url: &str, options: &Options) -> ConnectError {
    match connect(url, options).await {
        Ok(store) => panic!("{} was opened", store.facts().name),
        Err(error) => error,
    }
}

/// EVT-050, RLY-002
#[tokio::test]
async fn the_scheme_of_the_url_chooses_the_store() {
    let folder = tempfile::tempdir().unwrap();
    for form in ["sqlite:", "sqlite://", "SQLite:"] {
        let url = format!("{form}{}", folder.path().join("orders.db").display());
        let store = connect(&url, &Options::default()).await.unwrap();
        assert_eq!(store.facts().kind, "sqlite");
        assert_eq!(store.facts().name, "orders.db");
    }
    for (url, kind) in [("mysql://me@127.0.0.1/shop", "mysql"), ("postgres://me@127.0.0.1/shop", "postgres")]
    {
        let store = connect(url, &Options::default()).await.unwrap();
        assert_eq!(store.facts().kind, kind);
    }
    // This one asks the server what it can do, and none listens there.
    let options = Options::default();
    let asked = refused("mongodb://127.0.0.1:1/shop?serverSelectionTimeoutMS=200", &options).await;
    assert_eq!(asked.kind(), ErrorKind::Unavailable);
}

/// EVT-050
#[tokio::test]
async fn a_store_that_is_not_built_in_is_named() {
    for kind in stores().iter().filter(|kind| !kind.is_built_in()) {
        for scheme in kind.schemes {
            let error = refused(&format!("{scheme}://u:pa55@host/db"), &Options::default()).await;
            assert!(matches!(error, ConnectError::NotBuiltIn { name } if name == kind.name));
            assert_eq!(error.kind(), ErrorKind::Unsupported);
        }
    }
}

/// EVT-050, PBX-023
#[tokio::test]
async fn an_unknown_url_is_refused_with_the_known_ones_and_without_its_password() {
    for url in ["oracle://scott:pa55@host/db", "scott:pa55@host", "/a/file.db", "redis:pa55"] {
        let text = format!("{0} {0:?}", refused(url, &Options::default()).await);
        assert!(text.contains("sqlite:FILE") && text.contains("postgres://"), "{text}");
        assert!(!text.contains("pa55"), "{text}");
    }
}

/// EVT-048
#[tokio::test]
async fn options_reach_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("a.db").display());
    let missing = Options { missing: MissingFile::Refuse, ..Options::default() };
    assert_eq!(refused(&url, &missing).await.kind(), ErrorKind::Unavailable);
    let schema = Options { schema: Some("sales".to_owned()), ..Options::default() };
    assert!(matches!(refused(&url, &schema).await, ConnectError::NoSuchOption { option: "schema", .. }));
    let table = Options { table: TableName::new("orders").unwrap(), ..Options::default() };
    let store = connect(&url, &table).await.unwrap();
    assert!(store.admin().schema_sql().contains("CREATE TABLE IF NOT EXISTS \"orders\" ("));
    assert_eq!(schema_sql(&url, &table).unwrap(), store.admin().schema_sql());
}

/// EVT-050
#[tokio::test]
async fn a_database_in_memory_is_refused() {
    for url in ["sqlite::memory:", "sqlite:", "sqlite://", "sqlite:a.db?mode=ro"] {
        assert_eq!(refused(url, &Options::default()).await.kind(), ErrorKind::InvalidInput, "{url}");
    }
}
