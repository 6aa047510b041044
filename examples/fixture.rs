//! Where the examples on PostgreSQL are tried: a schema of its own on the server that a variable names.

use std::io::Write as _;

use sqlx::postgres::{PgConnection, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection, Executor};
use uuid::Uuid;

const SERVER: &str = "PILLARBOX_TEST_POSTGRES_URL";

/// A schema that is there until this is cleared.
pub(crate) struct Fixture {
    server: String,
    schema: String,
}

impl Fixture {
    /// None, and a line that says so, where no server is named.
    pub(crate) async fn new(test: &str) -> Option<Self> {
        let Ok(server) = std::env::var(SERVER) else {
            // Not captured by the harness, so that the summary of a test run repeats it.
            let mut out = std::io::stdout().lock();
            writeln!(out, "could not run: {test}: {SERVER} is not set; `cargo xtask test` starts a server")
                .unwrap();
            return None;
        };
        let fixture = Self { server, schema: format!("example_{}", Uuid::now_v7().simple()) };
        fixture.execute(&format!("CREATE SCHEMA {}", fixture.schema)).await;
        Some(fixture)
    }

    /// The URL that an example is started with: all its tables are in the schema.
    pub(crate) fn url(&self) -> String {
        let join = if self.server.contains('?') { '&' } else { '?' };
        format!("{}{join}options=-csearch_path%3D{}", self.server, self.schema)
    }

    pub(crate) async fn pool(&self) -> PgPool {
        PgPoolOptions::new().max_connections(5).connect(&self.url()).await.unwrap()
    }

    pub(crate) async fn clear(self) {
        self.execute(&format!("DROP SCHEMA {} CASCADE", self.schema)).await;
    }

    async fn execute(&self, statement: &str) {
        let mut connection = PgConnection::connect(&self.server).await.unwrap();
        connection.execute(AssertSqlSafe(statement)).await.unwrap();
        connection.close().await.unwrap();
    }
}
