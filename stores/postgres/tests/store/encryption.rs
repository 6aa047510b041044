//! Encrypted connections, by the URL.

use pillarbox::port::{Admin, ErrorKind};
use pillarbox_postgres::PostgresStore;
use pillarbox_postgres::sqlx::query_scalar;

use crate::kit::{MAIN, could_not_run};

/// OBX-126: what the URL demands is kept; nothing is sent in plain text instead.
#[tokio::test]
async fn a_url_that_demands_encryption_never_goes_without() {
    let Ok(url) = std::env::var(MAIN) else {
        return could_not_run(
            "a_url_that_demands_encryption_never_goes_without",
            &format!("{MAIN} is not set"),
        );
    };
    let separator = if url.contains('?') { '&' } else { '?' };
    let store = PostgresStore::open_url(&format!("{url}{separator}sslmode=require")).unwrap();
    let plain = PostgresStore::open_url(&format!("{url}{separator}sslmode=disable")).unwrap();
    let offered: String = query_scalar("SHOW ssl").fetch_one(plain.pool()).await.unwrap();
    let encrypted = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    if offered == "on" {
        assert!(query_scalar::<_, bool>(encrypted).fetch_one(store.pool()).await.unwrap());
    } else {
        let refused = store.stats().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused:?}");
    }
    assert!(!query_scalar::<_, bool>(encrypted).fetch_one(plain.pool()).await.unwrap());
}
