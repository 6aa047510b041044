//! Runs statements on a tokio-postgres client, prepared once per connection where possible.

use std::collections::HashMap;
use std::sync::Arc;

use deadpool_postgres::StatementCache;
use futures_util::TryStreamExt;
use pillarbox::model::{EventId, FailedSteps, Lane, NewColumns, NewRow, Written};
use pillarbox::port::{Cancel, ErrorKind, JoinAction, JoinChange, JoinChanged, OnDone, Settle, Settled};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, Row, Statement};

use super::bind::{self, Param, redacted};
use crate::error::DriverError;
use crate::insert::{gone, merge, message_ids, numbered};
use crate::joins;
use crate::settle::Columns;
use crate::sql::{Locked, Sql};
use crate::time::Time;

/// A client, and its cache of prepared statements.
#[derive(Clone, Copy)]
pub(super) struct Session<'a> {
    pub(super) client: &'a Client,
    /// `None` if there is no cache, or if a statement does not outlive its transaction.
    pub(super) kept: Option<&'a StatementCache>,
}

/// A statement and its parameters.
pub(super) struct Call<'a> {
    sql: &'a str,
    types: &'static [Type],
    params: Vec<Param<'a>>,
}

/// A call that is sent when its future is first polled, without waiting for the server before that.
pub(super) struct Ready<'a> {
    call: Call<'a>,
    statement: Option<Statement>,
}

impl<'a> Call<'a> {
    /// Inserts rows. Without rows it fails if the transaction cannot commit.
    pub(super) fn insert(sql: &'a Sql, values: &'a [NewColumns<'a>]) -> Self {
        match values {
            [] => Self { sql: &sql.alive, types: &[], params: Vec::new() },
            [row] if row.is_immediate() => {
                Self { sql: sql.insert.of(values), types: &bind::ONE, params: bind::one(row) }
            }
            rows => Self { sql: sql.insert_many.of(rows), types: &bind::MANY, params: bind::many(rows) },
        }
    }

    /// Looks up the rows that have the message ids of these rows.
    pub(super) fn written(sql: &'a Sql, values: &[NewColumns<'a>]) -> Self {
        const TYPES: &[Type] = &[Type::TEXT_ARRAY];
        Self { sql: &sql.written, types: TYPES, params: vec![redacted(message_ids(values))] }
    }

    fn cancel(sql: &'a Sql, request: &'a Cancel) -> Self {
        const TYPES: &[Type] = &[Type::TEXT_ARRAY, Type::TIMESTAMPTZ, Type::TEXT];
        let ids: Vec<&str> = request.ids.iter().map(EventId::as_str).collect();
        let params = vec![redacted(ids), redacted(request.now.map(Time)), redacted(request.by.as_str())];
        Self { sql: &sql.cancel, types: TYPES, params }
    }

    fn settle(sql: &'a Sql, columns: &'a Columns<'a>, on_done: OnDone) -> Self {
        let params = vec![
            redacted(columns.now),
            redacted(columns.node.as_deref()),
            redacted(columns.owner),
            redacted(columns.by()),
            redacted(&columns.seq),
            redacted(&columns.kind),
            redacted(&columns.token),
            redacted(&columns.delay_us),
            redacted(&columns.error),
            redacted(&columns.attempts),
            redacted(&columns.delayed),
            redacted(&columns.blocks),
            redacted(&columns.id),
            redacted(&columns.recorded),
            redacted(columns.repeats),
        ];
        Self { sql: sql.settle.of(on_done).of(Locked::Awaited), types: &bind::SETTLE, params }
    }

    fn change_join(sql: &'a Sql, request: &'a JoinChange) -> Self {
        let (types, mut between): (&'static [Type], Vec<Param<'a>>) = match &request.action {
            JoinAction::Start { grouping_key, expected, metadata } => (
                &bind::JOIN_START,
                vec![redacted(grouping_key), redacted(joins::steps(*expected)), redacted(metadata)],
            ),
            JoinAction::Attach { messages } => {
                let messages: Vec<&str> = messages.iter().map(EventId::as_str).collect();
                (&bind::JOIN_ATTACH, vec![redacted(messages)])
            }
            JoinAction::Report { message, state } => {
                (&bind::JOIN_REPORT, vec![redacted(message.as_str()), redacted(i32::from(state.code()))])
            }
            JoinAction::Wait(wait) => {
                let (complete, fail) = (wait.on_complete.as_ref(), wait.on_fail.as_ref());
                let params = vec![
                    redacted(wait.failed_steps == FailedSteps::Fail),
                    redacted(complete.map(|next| &next.topic)),
                    redacted(complete.map(|next| &next.payload)),
                    redacted(fail.map(|next| &next.topic)),
                    redacted(fail.map(|next| &next.payload)),
                    redacted(wait.message.as_str()),
                    redacted(wait.headers.as_deref()),
                ];
                (&bind::JOIN_WAIT, params)
            }
            JoinAction::Cancel { by } => (&bind::JOIN_CANCEL, vec![redacted(by)]),
        };
        let mut params = vec![redacted(request.join.as_str())];
        params.append(&mut between);
        params.push(redacted(request.now.map(Time)));
        Self { sql: joins::statement(sql, &request.action), types, params }
    }
}

impl Session<'_> {
    /// Prepares the statement if it is to be kept and is not cached yet. Only preparing waits for the server.
    pub(super) async fn ready<'a>(self, call: Call<'a>) -> Result<Ready<'a>, Error> {
        let statement = match self.kept {
            Some(kept) => Some(kept.prepare_typed(self.client, call.sql, call.types).await?),
            None => None,
        };
        Ok(Ready { call, statement })
    }

    pub(super) async fn run(self, ready: Ready<'_>) -> Result<Vec<Row>, DriverError> {
        let Call { sql, types, params } = ready.call;
        let rows = match &ready.statement {
            Some(statement) => self.client.query_raw(statement, params).await?,
            None => {
                let typed = params.into_iter().zip(types.iter().cloned());
                self.client.query_typed_raw(sql, typed).await?
            }
        };
        Ok(rows.try_collect().await?)
    }

    async fn query(self, call: Call<'_>) -> Result<Vec<Row>, DriverError> {
        self.run(self.ready(call).await?).await
    }

    pub(super) async fn insert(self, sql: &Arc<Sql>, rows: &[NewRow]) -> Result<Vec<Written>, DriverError> {
        let values = NewColumns::of_all(rows);
        let added = self.query(Call::insert(sql, &values)).await?;
        if values.is_empty() {
            return Ok(Vec::new());
        }
        let added = all_written(&added)?;
        if added.len() == rows.len() {
            return Ok(added);
        }
        let there = self.query(Call::written(sql, &values)).await?;
        merge(&values, added, by_message_id(&there)?, gone)
    }

    pub(super) async fn cancel(self, sql: &Arc<Sql>, request: &Cancel) -> Result<Vec<EventId>, DriverError> {
        let rows = self.query(Call::cancel(sql, request)).await?;
        rows.iter().map(|row| Ok(EventId::from_row(row.try_get::<_, &str>(0)?))).collect()
    }

    pub(super) async fn settle(self, sql: &Sql, request: &Settle) -> Result<Settled, DriverError> {
        let columns = Columns::new(request);
        let rows = self.query(Call::settle(sql, &columns, request.on_done)).await?;
        let row = rows.first().ok_or_else(no_answer)?;
        Ok(columns.settled(row.try_get(0)?, row.try_get(1)?, row.try_get(3)?, row.try_get(4)?))
    }

    pub(super) async fn change_join(
        self,
        sql: &Sql,
        request: &JoinChange,
    ) -> Result<JoinChanged, DriverError> {
        let rows = self.query(Call::change_join(sql, request)).await?;
        let row = rows.first().ok_or_else(no_answer)?;
        joins::changed(row.try_get(0)?, row.try_get(1)?)
    }
}

fn no_answer() -> DriverError {
    DriverError::Refused(ErrorKind::Unexpected, "the server answered nothing".to_owned())
}

pub(super) fn all_written(rows: &[Row]) -> Result<Vec<Written>, DriverError> {
    rows.iter().map(|row| written(row, true)).collect()
}

pub(super) fn by_message_id(rows: &[Row]) -> Result<HashMap<String, Written>, DriverError> {
    rows.iter().map(|row| Ok((row.try_get(3)?, written(row, false)?))).collect()
}

fn written(row: &Row, fresh: bool) -> Result<Written, DriverError> {
    let id = EventId::from_row(row.try_get::<_, &str>(0)?);
    Ok(Written {
        seq: numbered(row.try_get(1)?, &id),
        id,
        fresh,
        delayed: row.try_get::<_, Option<i16>>(2)? == Some(Lane::DELAYED.0),
    })
}
