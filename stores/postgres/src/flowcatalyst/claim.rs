//! Claiming items: the time of the claim is its token, so it is later with each claim.

use std::collections::HashMap;

use pillarbox::model::flowcatalyst::Item;
use pillarbox::model::{Column, Row, Token};
use pillarbox::port::{Claim, ClaimFrom, Cursor, ErrorKind, Fetch, Fetched, Scope};
use pillarbox_store_kit::{Light, read_item};

use super::row::read_taken;
use crate::claim::{row_most, total};
use crate::connection::Session;
use crate::error::Failure;
use crate::fetch::{at_once, most};
use crate::row::{Values, decoder, read_all};
use crate::sql::Sql;
use crate::time::{Time, skipped};

pub(crate) async fn claim(session: &mut Session, sql: &Sql, request: &Claim) -> Result<Vec<Row>, Failure> {
    if request.from == ClaimFrom::Queue {
        return Err(unsupported("there is no queue in the layout flowcatalyst"));
    }
    let query = session.query(&sql.claim);
    let rows = query
        .bind(request.now.map(Time))
        .bind(skipped(request.skip_recent))
        .bind(i64::try_from(request.rows).unwrap_or(i64::MAX))
        .bind(row_most(&request.bytes))
        .bind(total(&request.bytes))
        .fetch_all(&mut session.connection)
        .await?;
    Ok(read_all(&rows, |decoder, values| read_taken(decoder, values, request.bytes.row).into_row()))
}

/// Reads without claiming: what waits, in the order of claims.
pub(crate) async fn fetch(session: &mut Session, sql: &Sql, request: &Fetch) -> Result<Fetched, Failure> {
    let wanted = match &request.scope {
        Scope::Due => request.rows,
        // Asking for nothing tells the time.
        Scope::Slots { slots, .. } if slots.is_empty() => 0,
        _ => return Err(unsupported("rows of the layout flowcatalyst have no numbers to be read by")),
    };
    // One more than asked for tells whether there is more.
    let limit = i64::try_from(wanted).unwrap_or(i64::MAX - 1).saturating_add(1);
    let query = session.query(&sql.fetch_due);
    let query = query.bind(at_once(request)).bind(request.now.map(Time));
    let query = query.bind(skipped(request.skip_recent)).bind(limit);
    let found = query.fetch_all(&mut session.connection).await?;
    let now = request.now.unwrap_or_default();
    let mut fetched = Fetched { rows: Vec::new(), cursor: Cursor::default(), more: false, now };
    let Some(decoder) = found.first().map(decoder) else { return Ok(fetched) };
    let (mut bytes, mut large) = (0_usize, Vec::new());
    for values in found.iter().map(Values) {
        fetched.now = decoder.time(&values, Column::Now).unwrap_or(now);
        if !decoder.has(&values, Column::Id) {
            continue;
        }
        if fetched.rows.len() >= wanted || (request.bytes.reached_by(bytes) && !fetched.rows.is_empty()) {
            fetched.more = matches!(request.scope, Scope::Due);
            break;
        }
        let light = read_item(&decoder, &values, &request.bytes);
        if let Light::Large(item) = &light {
            large.push(item.id.clone());
        }
        let item = light.into_inner();
        bytes = bytes.saturating_add(item.bytes);
        fetched.rows.push(unclaimed(item));
    }
    if !large.is_empty() {
        load(session, sql, request, &large, &mut fetched.rows).await?;
    }
    Ok(fetched)
}

fn unclaimed(item: Item) -> Row {
    Row { token: Token::default(), ..item.into_row() }
}

/// Puts rows in the place of those whose contents were left out; what is not there any more is no row.
async fn load(
    session: &mut Session,
    sql: &Sql,
    request: &Fetch,
    ids: &[String],
    rows: &mut Vec<Row>,
) -> Result<(), Failure> {
    let query = session.query(&sql.fetch_large_items).bind(most(request.bytes.row)).bind(ids);
    let found = query.fetch_all(&mut session.connection).await?;
    let loaded = read_all(&found, |decoder, values| {
        unclaimed(read_item(decoder, values, &request.bytes).into_inner())
    });
    let loaded = loaded.into_iter().map(|row| (row.id.as_str().to_owned(), row));
    let mut loaded: HashMap<String, Row> = loaded.collect();
    rows.retain_mut(|row| match ids.iter().any(|id| id == row.id.as_str()) {
        true => loaded.remove(row.id.as_str()).map(|whole| *row = whole).is_some(),
        false => true,
    });
    Ok(())
}

fn unsupported(detail: &str) -> Failure {
    Failure::Refused(ErrorKind::Unsupported, detail.to_owned())
}
