//! The differences between the native table and a table of items.

use pillarbox::model::flowcatalyst::NewItem;
use pillarbox::model::{EventId, NewRow, Record, RowDecoder};
use pillarbox::port::{
    ErrorKind, Items, List, Migrated, Native, Settle, Settled, StoreError, StoreFuture, TableKind,
};
use pillarbox_store_kit::{Purpose, call};

use crate::connection::{Query, Session, Work};
use crate::rights::{self, Right};
use crate::row::Values;
use crate::sql::Sql;
use crate::store::PostgresTable;
use crate::{flowcatalyst, migrate};

/// A kind of table, as the parameter of [`PostgresTable`].
pub(crate) trait Kind: TableKind + Sized {
    /// The privileges that delivery and purges need on the tables that differ between the kinds.
    const RIGHTS: &'static [Right];

    /// Creates or upgrades the tables.
    fn migrate<'c>(session: &'c mut Session, sql: &'c Sql, _: &'c ()) -> Work<'c, Migrated>;

    /// Checks that the tables exist and have the columns and version that this release needs.
    fn check<'c>(session: &'c mut Session, sql: &'c Sql, _: &'c ()) -> Work<'c, ()>;

    /// The SQL that creates the tables.
    fn tables(sql: &Sql) -> String;

    /// Refuses rows with fields that the table has no columns for.
    fn admit(_: &PostgresTable<Self>, _: &[NewRow]) -> Result<(), StoreError> {
        Ok(())
    }

    /// Refuses an operation on a user's transaction that needs a queue, if the table has none.
    #[cfg(any(feature = "sqlx-0_9", feature = "tokio-postgres-0_7"))]
    fn queue(_: &PostgresTable<Self>, _: &'static str) -> Result<(), StoreError> {
        Ok(())
    }

    /// Applies outcomes.
    fn settle(store: &PostgresTable<Self>, request: Settle) -> StoreFuture<'_, Settled>;

    /// Decodes a whole row, for operators.
    fn record(decoder: &RowDecoder, values: &Values<'_>) -> Record;

    /// Binds the row after which a page of a list begins.
    fn bind_after<'q>(query: Query<'q>, request: &'q List) -> Query<'q>;
}

impl Kind for Native {
    const RIGHTS: &'static [Right] = rights::NATIVE;

    fn migrate<'c>(session: &'c mut Session, sql: &'c Sql, _: &'c ()) -> Work<'c, Migrated> {
        Box::pin(migrate::migrate(session, sql))
    }

    fn check<'c>(session: &'c mut Session, sql: &'c Sql, _: &'c ()) -> Work<'c, ()> {
        Box::pin(migrate::check(session, sql))
    }

    fn tables(sql: &Sql) -> String {
        sql.migrations.join("\n")
    }

    fn settle(store: &PostgresTable<Self>, request: Settle) -> StoreFuture<'_, Settled> {
        Box::pin(store.settle_rows(request))
    }

    fn record(decoder: &RowDecoder, values: &Values<'_>) -> Record {
        decoder.record(values)
    }

    fn bind_after<'q>(query: Query<'q>, request: &'q List) -> Query<'q> {
        query.bind(request.start())
    }
}

impl Kind for Items {
    const RIGHTS: &'static [Right] = rights::ITEMS;

    fn migrate<'c>(session: &'c mut Session, sql: &'c Sql, _: &'c ()) -> Work<'c, Migrated> {
        Box::pin(flowcatalyst::migrate(session, sql))
    }

    fn check<'c>(session: &'c mut Session, sql: &'c Sql, _: &'c ()) -> Work<'c, ()> {
        Box::pin(flowcatalyst::check(session, sql))
    }

    fn tables(sql: &Sql) -> String {
        format!("{}\n{}", sql.create_items, sql.create_beside)
    }

    fn admit(store: &PostgresTable<Self>, rows: &[NewRow]) -> Result<(), StoreError> {
        NewItem::of_rows(rows, &store.shared().sql.table).map(drop).map_err(|invalid| {
            StoreError::new(ErrorKind::InvalidInput, "write", store.name(), invalid.to_string())
        })
    }

    #[cfg(any(feature = "sqlx-0_9", feature = "tokio-postgres-0_7"))]
    fn queue(store: &PostgresTable<Self>, operation: &'static str) -> Result<(), StoreError> {
        let detail = "the layout flowcatalyst can't do that";
        Err(StoreError::new(ErrorKind::Unsupported, operation, store.name(), detail))
    }

    fn settle(store: &PostgresTable<Self>, request: Settle) -> StoreFuture<'_, Settled> {
        store.on(Purpose::Settle, "settle", request, call!(flowcatalyst::settle))
    }

    fn record(decoder: &RowDecoder, values: &Values<'_>) -> Record {
        decoder.item(values).into_record()
    }

    fn bind_after<'q>(query: Query<'q>, request: &'q List) -> Query<'q> {
        query.bind(request.after_id.as_ref().map(EventId::as_str))
    }
}
