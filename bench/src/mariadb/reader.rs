//! One bare connection that reads in order and deletes.

use pillarbox_mysql::sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use pillarbox_mysql::sqlx::{AssertSqlSafe, Connection, Row, query, raw_sql};

use crate::database::{Reader, Reads};

/// The connection.
pub(crate) struct Bare {
    connection: MySqlConnection,
    reads: Reads,
    after: i64,
}

impl Bare {
    pub(super) async fn connect(options: &MySqlConnectOptions, reads: Reads) -> anyhow::Result<Self> {
        let mut connection = MySqlConnection::connect_with(options).await?;
        // As the store's own connections: nothing between the rows is locked.
        raw_sql("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").execute(&mut connection).await?;
        Ok(Self { connection, reads, after: 0 })
    }
}

impl Reader for Bare {
    async fn next(&mut self, rows: usize) -> anyhow::Result<usize> {
        let rows = query(
            "SELECT seq, event_id, event_type, aggregate_type, aggregate_id, message_group, headers, payload, attempts \
             FROM outbox_event WHERE status IN (0, 2) AND seq > ? ORDER BY seq LIMIT ?",
        )
        .bind(self.after)
        .bind(i64::try_from(rows)?)
        .fetch_all(&mut self.connection)
        .await?;
        let mut numbers = Vec::with_capacity(rows.len());
        for row in &rows {
            let event: (String, String, Option<String>, String) =
                (row.get(1), row.get(2), row.get(5), row.get(7));
            std::hint::black_box(event);
            numbers.push(row.get::<i64, _>(0));
        }
        if let (Reads::Onwards, Some(last)) = (self.reads, numbers.last()) {
            self.after = *last;
        }
        if numbers.is_empty() {
            return Ok(0);
        }
        let list: Vec<String> = numbers.iter().map(i64::to_string).collect();
        let sql = format!("DELETE FROM outbox_event WHERE seq IN ({}) AND status IN (0, 2)", list.join(","));
        raw_sql(AssertSqlSafe(sql)).execute(&mut self.connection).await?;
        Ok(numbers.len())
    }
}
