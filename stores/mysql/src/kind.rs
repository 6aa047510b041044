//! The differences between the native table and a table of items.

use std::future::ready;

use jiff::Timestamp;
use pillarbox::model::{Attempt, EventId, NewRow, Record, RowDecoder, Written};
use pillarbox::port::{Insert, Items, List, Migrated, Native, Purge, Select, Settle, Settled, TableKind};
use sqlx::mysql::MySqlConnection;

use crate::connection::{Asked, Session, Work};
use crate::error::DriverError;
use crate::inspect::Selection;
use crate::probe::Locking;
use crate::renumber::Moving;
use crate::rights::{self, Rights};
use crate::row::Values;
use crate::sql::Sql;
use crate::{flowcatalyst, insert, inspect, migrate, operate, renumber, settle, write_sql};

/// A kind of table, the parameter of [`MysqlTable`](crate::MysqlTable). A method with a default has no
/// counterpart in a table of items.
pub(crate) trait Kind: TableKind {
    /// The privileges that delivery and purges need.
    const RIGHTS: Rights;
    /// Whether settles and changes of joins can run in a user's transaction; the reason if they cannot.
    #[cfg(feature = "sqlx-0_9")]
    const QUEUE: Result<(), &'static str>;

    /// The statements that create the tables, also shown to people.
    fn tables(sql: &Sql) -> String;

    /// Creates or upgrades the tables, under the migration lock.
    fn bring_up<'c>(session: &'c mut Session, sql: &'c Sql) -> Work<'c, Migrated>;

    /// Checks that the tables exist and have a version that this release can use.
    fn check<'c>(session: &'c mut Session, sql: &'c Sql, _: &'c ()) -> Work<'c, ()>;

    /// Whether the tables beside the table of rows exist.
    fn is_complete<'c>(session: &'c mut Session, sql: &'c Sql) -> Work<'c, bool>;

    /// Inserts rows, all or none. There must be at least one.
    fn insert<'c>(
        connection: &'c mut MySqlConnection,
        sql: &'c Sql,
        rows: &'c [NewRow],
        now: Option<Timestamp>,
    ) -> Work<'c, Vec<Written>>;

    /// The insert statement, for any driver.
    fn insert_sql(sql: &Sql, rows: &[NewRow]) -> Result<Insert, DriverError>;

    /// Whether a settle can rely on SKIP LOCKED. `probed` is the result of the store's probe.
    fn locking(session: &Session, probed: Locking) -> Locking;

    /// Applies outcomes in its own transaction.
    fn settle<'c>(
        session: &'c mut Session,
        sql: &'c Sql,
        request: &'c Settle,
        locking: Locking,
    ) -> Work<'c, Settled>;

    /// The SQL for the rows that an operator selects.
    fn selection(select: &Select, sql: &Sql) -> Selection;

    /// Binds the row after which a page of a list begins.
    fn bind_after(query: Asked, request: &List) -> Asked;

    /// Decodes all columns of a row, for people.
    fn record(decoder: &RowDecoder, values: &Values<'_>) -> Record;

    /// The failed attempts of an event.
    fn attempts<'c>(_: &'c mut Session, _: &'c Sql, _: &'c EventId) -> Work<'c, Vec<Attempt>> {
        Box::pin(ready(Ok(Vec::new())))
    }

    /// Moves rows to the end of the order.
    fn renumber<'c>(_: &'c mut Session, _: &'c Sql, _: &'c [Moving]) -> Work<'c, ()> {
        Box::pin(ready(Ok(())))
    }

    /// Deletes old rows.
    fn purge<'c>(session: &'c mut Session, sql: &'c Sql, request: &'c (Purge, Locking)) -> Work<'c, u64>;
}

impl Kind for Native {
    const RIGHTS: Rights = rights::NATIVE;
    #[cfg(feature = "sqlx-0_9")]
    const QUEUE: Result<(), &'static str> = Ok(());

    fn tables(sql: &Sql) -> String {
        sql.migrations.join("\n")
    }

    fn bring_up<'c>(session: &'c mut Session, sql: &'c Sql) -> Work<'c, Migrated> {
        Box::pin(migrate::bring_up(session, sql))
    }

    fn check<'c>(session: &'c mut Session, sql: &'c Sql, _: &'c ()) -> Work<'c, ()> {
        Box::pin(migrate::check(session, sql))
    }

    fn is_complete<'c>(_: &'c mut Session, _: &'c Sql) -> Work<'c, bool> {
        Box::pin(ready(Ok(true)))
    }

    fn insert<'c>(
        connection: &'c mut MySqlConnection,
        sql: &'c Sql,
        rows: &'c [NewRow],
        now: Option<Timestamp>,
    ) -> Work<'c, Vec<Written>> {
        Box::pin(insert::add_new(connection, sql, rows, now))
    }

    fn insert_sql(sql: &Sql, rows: &[NewRow]) -> Result<Insert, DriverError> {
        Ok(write_sql::insert_sql(sql, rows))
    }

    fn locking(_: &Session, probed: Locking) -> Locking {
        probed
    }

    fn settle<'c>(
        session: &'c mut Session,
        sql: &'c Sql,
        request: &'c Settle,
        locking: Locking,
    ) -> Work<'c, Settled> {
        Box::pin(settle::settle(session, sql, request, locking))
    }

    fn selection(select: &Select, sql: &Sql) -> Selection {
        inspect::selection(select, sql)
    }

    fn bind_after(query: Asked, request: &List) -> Asked {
        query.bind(request.start())
    }

    fn record(decoder: &RowDecoder, values: &Values<'_>) -> Record {
        decoder.record(values)
    }

    fn attempts<'c>(session: &'c mut Session, sql: &'c Sql, id: &'c EventId) -> Work<'c, Vec<Attempt>> {
        Box::pin(inspect::attempts(session, sql, id))
    }

    fn renumber<'c>(session: &'c mut Session, sql: &'c Sql, rows: &'c [Moving]) -> Work<'c, ()> {
        Box::pin(renumber::renumber(session, sql, rows))
    }

    fn purge<'c>(session: &'c mut Session, sql: &'c Sql, request: &'c (Purge, Locking)) -> Work<'c, u64> {
        Box::pin(operate::purge(session, sql, &request.0, request.1))
    }
}

impl Kind for Items {
    const RIGHTS: Rights = rights::ITEMS;
    #[cfg(feature = "sqlx-0_9")]
    const QUEUE: Result<(), &'static str> = Err("the layout flowcatalyst can't do that");

    fn tables(sql: &Sql) -> String {
        format!("{}\n{}", sql.create_items, sql.create_beside)
    }

    fn bring_up<'c>(session: &'c mut Session, sql: &'c Sql) -> Work<'c, Migrated> {
        Box::pin(flowcatalyst::bring_up(session, sql))
    }

    fn check<'c>(session: &'c mut Session, sql: &'c Sql, _: &'c ()) -> Work<'c, ()> {
        Box::pin(flowcatalyst::check(session, sql))
    }

    fn is_complete<'c>(session: &'c mut Session, sql: &'c Sql) -> Work<'c, bool> {
        Box::pin(async move { Ok(migrate::version(session, sql).await? > 0) })
    }

    fn insert<'c>(
        connection: &'c mut MySqlConnection,
        sql: &'c Sql,
        rows: &'c [NewRow],
        now: Option<Timestamp>,
    ) -> Work<'c, Vec<Written>> {
        Box::pin(flowcatalyst::insert(connection, sql, rows, now))
    }

    fn insert_sql(sql: &Sql, rows: &[NewRow]) -> Result<Insert, DriverError> {
        flowcatalyst::insert_sql(sql, rows, None)
    }

    fn locking(session: &Session, _: Locking) -> Locking {
        flowcatalyst::locking(session)
    }

    fn settle<'c>(
        session: &'c mut Session,
        sql: &'c Sql,
        request: &'c Settle,
        locking: Locking,
    ) -> Work<'c, Settled> {
        Box::pin(flowcatalyst::settle(session, sql, request, locking))
    }

    fn selection(select: &Select, sql: &Sql) -> Selection {
        flowcatalyst::selection(select, sql)
    }

    fn bind_after(query: Asked, request: &List) -> Asked {
        let after = request.after_id.as_ref().map(ToString::to_string);
        query.bind(after.clone()).bind(after)
    }

    fn record(decoder: &RowDecoder, values: &Values<'_>) -> Record {
        decoder.item(values).into_record()
    }

    fn purge<'c>(
        session: &'c mut Session,
        sql: &'c Sql,
        (request, _): &'c (Purge, Locking),
    ) -> Work<'c, u64> {
        Box::pin(flowcatalyst::purge(session, sql, request))
    }
}
