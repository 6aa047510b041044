//! Joins: the member rows are authoritative, and a join counts the members that actually changed.
//!
//! Locks are taken on messages, then on members, then on joins. Decisions depend on locking reads only, so
//! the counts are right even in a transaction that has an old snapshot.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use pillarbox::model::{Counted, EventId, FailedSteps, JoinId, JoinRecord, JoinStatus, JoinWait, StepState};
use pillarbox::port::{JoinAction, JoinChange, JoinChanged, JoinShown, Joins, ListJoins, Purge, StoreFuture};
use pillarbox::rules::{join_refusal, report_refusal};
use pillarbox_store_kit::{call, read_join, read_member};
use sqlx::mysql::MySqlRow;

use crate::attach::attach;
use crate::connection::{Session, prepared};
use crate::error::DriverError;
use crate::pipeline::Pipeline;
use crate::probe::Locking;
use crate::row::{TextValues, text_number, text_of};
use crate::sql::{Sql, fill, quoted, quoted_list};
use crate::store::MysqlStore;
use crate::time::{literal, micros_back, now_sql};

impl Joins for MysqlStore {
    fn change_join(&self, request: JoinChange) -> StoreFuture<'_, JoinChanged> {
        self.0.on_general("change a join", request, |session, sql, request| {
            Box::pin(async move {
                let mut pipeline = session.begins();
                let changed = change_join(&mut pipeline, sql, request).await?;
                let rest = pipeline.rest();
                if changed == JoinChanged::Changed {
                    session.commit_with(&rest).await?;
                }
                Ok(changed)
            })
        })
    }

    fn show_join(&self, join: JoinId, members: usize) -> StoreFuture<'_, Option<JoinShown>> {
        self.0.on_general("show a join", (join, members), |session, sql, (join, members)| {
            Box::pin(show_join(session, sql, join, *members))
        })
    }

    fn list_joins(&self, request: ListJoins) -> StoreFuture<'_, Vec<JoinRecord>> {
        self.0.on_general("list joins", request, call!(list_joins))
    }
}

/// Changes one join within an open transaction, the store's own or the user's.
///
/// If the answer is not `Changed`, the caller must roll back to where it began.
pub(crate) async fn change_join(
    pipeline: &mut Pipeline<'_>,
    sql: &Sql,
    request: &JoinChange,
) -> Result<JoinChanged, DriverError> {
    let id = &request.join;
    match &request.action {
        JoinAction::Start { .. } => start(pipeline, sql, request).await,
        JoinAction::Attach { messages } => attach(pipeline, sql, request, messages).await,
        JoinAction::Report { message, state } => report(pipeline, sql, request, message, *state).await,
        action @ (JoinAction::Wait(_) | JoinAction::Cancel { .. }) => {
            let (now, sets) = pipeline.ask_at(sql, request.now, &[locks(sql, [id])]).await?;
            let join = read_joins(sets.first())?.pop();
            if let Some(refused) = join_refusal(join.as_ref(), action) {
                return Ok(refused);
            }
            match (action, join) {
                (JoinAction::Wait(wait), Some(join)) => {
                    note_wait(pipeline, sql, id, wait, now).await?;
                    fire(pipeline, sql, &mut [JoinRecord { wait: Some(wait.clone()), ..join }], now);
                }
                (JoinAction::Cancel { by }, Some(join)) => {
                    let cancelled = JoinRecord { status: JoinStatus::Cancelled, ..join };
                    end_join(pipeline, sql, &cancelled, now);
                    let row =
                        format!("({}, {}, 'cancel join', {})", literal(now), quoted(by), quoted(id.as_str()));
                    pipeline.push(fill(&sql.audit, &[("{rows}", row)]));
                }
                _ => return Ok(JoinChanged::NoSuchJoin),
            }
            Ok(JoinChanged::Changed)
        }
    }
}

async fn start(
    pipeline: &mut Pipeline<'_>,
    sql: &Sql,
    request: &JoinChange,
) -> Result<JoinChanged, DriverError> {
    let JoinAction::Start { grouping_key, expected, metadata } = &request.action else {
        return Ok(JoinChanged::Unchanged);
    };
    let query = prepared(fill(&sql.join_start, &[("{now}", now_sql(request.now))]));
    let query = query.bind(request.join.as_str()).bind(grouping_key.as_deref());
    match pipeline.run(query.bind(*expected).bind(metadata.as_deref())).await {
        Ok(()) => Ok(JoinChanged::Changed),
        Err(failure) if failure.is_duplicate() => Ok(JoinChanged::Unchanged),
        Err(failure) => Err(failure),
    }
}

/// Reports the state of one step. Locks the member before the join, in the same order as a settle.
async fn report(
    pipeline: &mut Pipeline<'_>,
    sql: &Sql,
    request: &JoinChange,
    message: &EventId,
    state: StepState,
) -> Result<JoinChanged, DriverError> {
    let id = &request.join;
    let member = [("{id}", quoted(id.as_str())), ("{message}", quoted(message.as_str()))];
    let ask = [fill(&sql.member_show, &member), locks(sql, [id])];
    let (now, sets) = pipeline.ask_at(sql, request.now, &ask).await?;
    let joins = read_joins(sets.get(1))?;
    let member_state =
        sets.first().and_then(|rows| rows.first()).map(|row| StepState::from_code(code(row, 0)));
    let refused =
        join_refusal(joins.first(), &request.action).or_else(|| report_refusal(member_state, state));
    if let Some(refused) = refused {
        return Ok(refused);
    }
    pipeline.push(fill(&fill(&sql.member_end, &member), &[("{state}", state.code().to_string())]));
    let mut ended = Ended::default();
    ended.of(id).add(state);
    ended.add(pipeline, sql, joins, now);
    Ok(JoinChanged::Changed)
}

async fn note_wait(
    pipeline: &mut Pipeline<'_>,
    sql: &Sql,
    id: &JoinId,
    wait: &JoinWait,
    now: Timestamp,
) -> Result<(), DriverError> {
    let (complete, fail) = (wait.on_complete.as_ref(), wait.on_fail.as_ref());
    let query = prepared(fill(&sql.join_wait, &[("{now}", "?".to_owned())]));
    let query = query
        .bind(wait.failed_steps == FailedSteps::Fail)
        .bind(complete.map(|next| next.topic.as_str()))
        .bind(complete.map(|next| next.payload.as_str()))
        .bind(fail.map(|next| next.topic.as_str()))
        .bind(fail.map(|next| next.payload.as_str()))
        .bind(wait.message.as_str())
        .bind(wait.headers.as_deref())
        .bind(crate::time::Time(now))
        .bind(id.as_str());
    pipeline.run(query).await
}

/// The statement that locks joins in the order of their ids.
pub(crate) fn locks<'a>(sql: &Sql, ids: impl IntoIterator<Item = &'a JoinId>) -> String {
    fill(&sql.joins_lock, &[("{ids}", quoted_list(ids.into_iter().map(JoinId::as_str)))])
}

/// The members that one call has changed, counted by join.
#[derive(Default)]
pub(crate) struct Ended(BTreeMap<JoinId, Counted>);

impl Ended {
    pub(crate) fn of(&mut self, join: &JoinId) -> &mut Counted {
        self.0.entry(join.clone()).or_default()
    }

    /// Ends the pending steps of messages that are done, dead or deleted. The caller has locked the messages.
    pub(crate) async fn messages(
        &mut self,
        pipeline: &mut Pipeline<'_>,
        sql: &Sql,
        steps: &BTreeMap<String, StepState>,
    ) -> Result<(), DriverError> {
        if steps.is_empty() {
            return Ok(());
        }
        let ids = quoted_list(steps.keys().map(String::as_str));
        let found = pipeline.ask(&[fill(&sql.members_pending, &[("{ids}", ids)])]).await?;
        let mut changed: BTreeMap<i16, BTreeSet<&str>> = BTreeMap::new();
        for row in found.iter().flatten() {
            let message = text_of(row, 1).unwrap_or_default();
            let Some(state) = steps.get(message) else { continue };
            self.of(&JoinId::from_row(text_of(row, 0).unwrap_or_default())).add(*state);
            changed.entry(state.code()).or_default().insert(message);
        }
        for (state, messages) in changed {
            let parts = [("{state}", state.to_string()), ("{ids}", quoted_list(messages))];
            pipeline.push(fill(&sql.members_end, &parts));
        }
        Ok(())
    }

    /// Locks the joins in the order of their ids, adds the counts, and ends the joins
    /// whose last step has ended.
    pub(crate) async fn count(
        self,
        pipeline: &mut Pipeline<'_>,
        sql: &Sql,
        now: Timestamp,
    ) -> Result<(), DriverError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let found = pipeline.ask(&[locks(sql, self.0.keys())]).await?;
        self.add(pipeline, sql, read_joins(found.first())?, now);
        Ok(())
    }

    /// The same for joins that are locked already.
    pub(crate) fn add(
        self,
        pipeline: &mut Pipeline<'_>,
        sql: &Sql,
        mut locked: Vec<JoinRecord>,
        now: Timestamp,
    ) {
        for join in &mut locked {
            let Some(counted) = self.0.get(&join.id) else { continue };
            let parts = [
                ("{attached}", counted.attached.to_string()),
                ("{completed}", counted.completed.to_string()),
                ("{failed}", counted.failed.to_string()),
                ("{now}", literal(now)),
                ("{id}", quoted(join.id.as_str())),
            ];
            pipeline.push(fill(&sql.join_count, &parts));
            join.count(*counted);
        }
        fire(pipeline, sql, &mut locked, now);
    }
}

/// Ends pending joins whose last step has ended and for which somebody waits, and enqueues their
/// continuations. The joins must be locked, with up-to-date counts.
fn fire(pipeline: &mut Pipeline<'_>, sql: &Sql, joins: &mut [JoinRecord], now: Timestamp) {
    let mut fired = Vec::new();
    for join in joins {
        if join.end() {
            end_join(pipeline, sql, join, now);
            fired.extend(join.fired.as_ref().map(|_| join.id.as_str()));
        }
    }
    if !fired.is_empty() {
        let parts = [("{ids}", quoted_list(fired)), ("{now}", literal(now))];
        pipeline.push(fill(&sql.join_fire, &parts));
    }
}

fn end_join(pipeline: &mut Pipeline<'_>, sql: &Sql, join: &JoinRecord, now: Timestamp) {
    let fired = join.fired.as_ref();
    let parts = [
        ("{status}", join.status.code().to_string()),
        ("{fired}", fired.map_or_else(|| "NULL".to_owned(), |message| quoted(message.as_str()))),
        ("{now}", literal(now)),
        ("{id}", quoted(join.id.as_str())),
    ];
    pipeline.push(fill(&sql.join_end, &parts));
}

/// Deletes joins that ended before a time, at most `limit`, with their members, within the open transaction.
pub(crate) async fn purge_joins(
    session: &mut Session,
    sql: &Sql,
    request: &Purge,
    locking: Locking,
) -> Result<(), DriverError> {
    let parts = [
        ("{now}", now_sql(request.now)),
        ("{age_us}", micros_back(request.older_than).to_string()),
        ("{limit}", request.limit.to_string()),
        ("{skip_locked}", locking.words()),
    ];
    let old = session.results(fill(&sql.joins_ended, &parts)).await?;
    let ids: Vec<&str> = old.iter().flatten().filter_map(|row| text_of(row, 0)).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let ids = [("{ids}", quoted_list(ids))];
    let text = format!("{}; {}", fill(&sql.members_purge, &ids), fill(&fill(&sql.joins_purge, &parts), &ids));
    session.results(text).await?;
    Ok(())
}

async fn show_join(
    session: &mut Session,
    sql: &Sql,
    id: &JoinId,
    limit: usize,
) -> Result<Option<JoinShown>, DriverError> {
    let parts = [("{id}", quoted(id.as_str())), ("{limit}", limit.to_string())];
    let sets = session.results(fill(&sql.join_show, &parts)).await?;
    let Some(join) = read_joins(sets.get(2))?.pop() else { return Ok(None) };
    let members = sets.iter().skip(3).flatten().map(|row| read_member(&TextValues(row)));
    Ok(Some(JoinShown { join, members: members.collect::<Result<_, _>>()? }))
}

async fn list_joins(
    session: &mut Session,
    sql: &Sql,
    request: &ListJoins,
) -> Result<Vec<JoinRecord>, DriverError> {
    let key = request.grouping_key.as_ref().map(|key| format!("grouping_key = {}", quoted(key)));
    let status = request.status.map(|status| format!("status = {}", status.code()));
    let matches: Vec<String> = key.into_iter().chain(status).chain(["TRUE".to_owned()]).collect();
    let parts = [("{matches}", matches.join(" AND ")), ("{limit}", request.limit.to_string())];
    let sets = session.results(fill(&sql.joins, &parts)).await?;
    read_joins(sets.first())
}

/// Decodes the joins that a statement of the text protocol has returned.
pub(crate) fn read_joins(rows: Option<&Vec<MySqlRow>>) -> Result<Vec<JoinRecord>, DriverError> {
    let joins = rows.into_iter().flatten().map(|row| read_join(&TextValues(row)));
    Ok(joins.collect::<Result<_, _>>()?)
}

/// A status code from a row of the text protocol; -1 if it does not fit.
pub(crate) fn code(row: &MySqlRow, column: usize) -> i16 {
    i16::try_from(text_number(row, column)).unwrap_or(-1)
}
