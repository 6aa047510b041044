//! The leader's work: takes the first items of each group in turn, and recovers items that others have taken.

use futures_util::TryStreamExt;
use pillarbox::model::{Column, EventId, GroupKey};
use pillarbox::port::{Recover, Take, Taken};
use sqlx::Row as _;

use super::row::read_taken;
use crate::claim::{row_most, total};
use crate::connection::Session;
use crate::error::DriverError;
use crate::row::{self, Values};
use crate::sql::Sql;
use crate::time::{Time, micros};

pub(crate) async fn take(session: &mut Session, sql: &Sql, request: &Take) -> Result<Taken, DriverError> {
    let except: Vec<&str> = request.except.iter().map(GroupKey::as_str).collect();
    let query = session
        .query(sql.take.of(request.ungrouped_order))
        .bind(request.now.map(Time))
        .bind(request.node.to_string());
    let query = query.bind(request.after.as_ref().map(GroupKey::as_str)).bind(except);
    let query = query
        .bind(limit(request.rows.min(Take::MOST)))
        .bind(limit(request.each))
        .bind(limit(request.ungrouped))
        .bind(row_most(&request.bytes))
        .bind(total(&request.bytes));
    let mut found = query.fetch(&mut session.connection);
    let (mut taken, mut decoder) = (Taken { leads: false, rows: Vec::new() }, None);
    // One row at a time: the driver's rows and their decoded copies are never all in memory together.
    while let Some(row) = found.try_next().await? {
        let (decoder, values) = (&*decoder.get_or_insert_with(|| row::decoder(&row)), Values::new(&row));
        taken.leads = decoder.number(&values, Column::Leads).is_some_and(|leads| leads != 0);
        if decoder.has(&values, Column::Id) {
            taken.rows.push(read_taken(decoder, &values, request.bytes.row).into_row());
        }
    }
    Ok(taken)
}

pub(crate) async fn recover(session: &mut Session, sql: &Sql, request: &Recover) -> Result<u64, DriverError> {
    let except: Vec<&str> = request.except.iter().map(EventId::as_str).collect();
    let query = session.query(&sql.recover).bind(request.now.map(Time)).bind(request.node.to_string());
    let query = query.bind(micros(request.older_than)).bind(except).bind(limit(request.rows));
    let row = query.fetch_one(&mut session.connection).await?;
    Ok(u64::try_from(row.try_get::<i64, _>(0)?).unwrap_or_default())
}

fn limit(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}
