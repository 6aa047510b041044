//! Joins: every change reads and writes the join in one transaction, and conflicts with concurrent changes of
//! it.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use mongodb::bson::{Bson, doc};
use pillarbox::model::{Counted, EventId, JoinId, JoinMember, JoinRecord, JoinStatus, Lane, StepState};
use pillarbox::port::{JoinAction, JoinChange, JoinChanged, JoinShown, Joins, ListJoins, StoreFuture};
use pillarbox::rules::{join_refusal, new_steps, report_refusal, started_join};

use crate::call::{Call, Find};
use crate::error::DriverError;
use crate::join_record::{self, fields, in_state, read_member};
use crate::number::head;
use crate::operate::record;
use crate::outbox::{Step, step};
use crate::row::Fields;
use crate::steps::finish;
use crate::store::MongodbStore;
use crate::time::cut;

impl Joins for MongodbStore {
    fn change_join(&self, request: JoinChange) -> StoreFuture<'_, JoinChanged> {
        self.run("change join", Step::Together, request, step!(change))
    }

    fn show_join(&self, join: JoinId, members: usize) -> StoreFuture<'_, Option<JoinShown>> {
        // A transaction, so that the join and its members come from one snapshot.
        self.run("show join", Step::Together, (join, members), |call, (join, members)| {
            Box::pin(show(call, join, *members))
        })
    }

    fn list_joins(&self, request: ListJoins) -> StoreFuture<'_, Vec<JoinRecord>> {
        self.run("list joins", Step::Single, request, step!(list))
    }
}

/// Applies one change. Also runs in a caller's own transaction.
pub(crate) async fn change(call: &mut Call<'_>, request: &JoinChange) -> Result<JoinChanged, DriverError> {
    let now = head(call).await?.now;
    let now = request.now.map_or(now, cut);
    let found = join_record::read(call, &request.join).await?;
    if let Some(refused) = join_refusal(found.as_ref(), &request.action) {
        return Ok(refused);
    }
    match (&request.action, found) {
        (JoinAction::Start { .. }, _) => start(call, request, now).await,
        (_, None) => Ok(JoinChanged::NoSuchJoin),
        (JoinAction::Report { message, state }, Some(join)) => report(call, join, message, *state, now).await,
        (JoinAction::Attach { messages }, Some(join)) => attach(call, join, messages, now).await,
        (JoinAction::Wait(wait), Some(join)) => {
            let join = JoinRecord { wait: Some(wait.clone()), ..join };
            finish(call, vec![join], now).await.map(|()| JoinChanged::Changed)
        }
        (JoinAction::Cancel { by }, Some(join)) => {
            let join = JoinRecord { status: JoinStatus::Cancelled, ..join };
            finish(call, vec![join], now).await?;
            record(call, now, by, "cancel join", &[request.join.as_str()]).await?;
            Ok(JoinChanged::Changed)
        }
    }
}

async fn start(
    call: &mut Call<'_>,
    request: &JoinChange,
    now: Timestamp,
) -> Result<JoinChanged, DriverError> {
    let Some(join) = started_join(request, now) else { return Ok(JoinChanged::Unchanged) };
    let mut document = fields(&join);
    document.insert("_id", join.id.as_str());
    match call.insert(&call.names().join, vec![document]).await {
        // Another process started the join first. The retried transaction sees it.
        Err(failure) if failure.is_duplicate() => Err(DriverError::met()),
        made => made.map(|()| JoinChanged::Changed),
    }
}

async fn report(
    call: &mut Call<'_>,
    mut join: JoinRecord,
    message: &EventId,
    state: StepState,
    now: Timestamp,
) -> Result<JoinChanged, DriverError> {
    let own = doc! { "join": join.id.as_str(), "message": message.as_str() };
    let find = Find { filter: own.clone(), ..Find::default() };
    let member = call.first(&call.names().member, find).await?;
    let member = member.as_ref().map(read_member).transpose()?;
    if let Some(refused) = report_refusal(member.map(|member| member.state), state) {
        return Ok(refused);
    }
    call.update_all(&call.names().member, own, doc! { "$set": { "state": in_state(state) } }).await?;
    let mut counted = Counted::default();
    counted.add(state);
    join.count(counted);
    finish(call, vec![join], now).await.map(|()| JoinChanged::Changed)
}

/// Attaches messages to a join and marks them as joined.
///
/// A settle of such a message writes the same document. So one of the two transactions conflicts, is retried,
/// and sees the other's result.
async fn attach(
    call: &mut Call<'_>,
    mut join: JoinRecord,
    messages: &[EventId],
    now: Timestamp,
) -> Result<JoinChanged, DriverError> {
    let there = members_among(call, &join.id, messages).await?;
    let asked: Vec<&EventId> = messages.iter().filter(|message| !there.contains(message.as_str())).collect();
    let states = states(call, &asked).await?;
    let state = |message: &EventId| states.get(message.as_str()).copied();
    let steps = match new_steps(&join, asked.into_iter().map(|message| (message, state(message)))) {
        Ok(steps) => steps,
        Err(refused) => return Ok(refused),
    };
    let ids: Vec<&str> = steps.keys().map(|message| message.as_str()).collect();
    let marked = doc! { "$set": { "joined": true } };
    call.update_all(&call.names().event, doc! { "_id": { "$in": ids } }, marked).await?;
    let member = |(message, state): (&&EventId, &StepState)| {
        let member = JoinMember { message: (*message).clone(), state: *state, attached_at: now };
        join_record::member(&join.id, &member)
    };
    let members = steps.iter().map(member).collect();
    call.insert(&call.names().member, members).await?;
    join.count(Counted::attaching(steps.into_values()));
    finish(call, vec![join], now).await.map(|()| JoinChanged::Changed)
}

/// The messages that are members already.
async fn members_among(
    call: &mut Call<'_>,
    join: &JoinId,
    messages: &[EventId],
) -> Result<HashSet<String>, DriverError> {
    let ids: Vec<&str> = messages.iter().map(EventId::as_str).collect();
    let filter = doc! { "join": join.as_str(), "message": { "$in": ids } };
    let found = call.find(&call.names().member, Find { filter, ..Find::default() }).await?;
    found.iter().map(|member| Ok(read_member(member)?.message.to_string())).collect()
}

/// The step states of queue messages. Other events cannot be steps and are left out.
async fn states(
    call: &mut Call<'_>,
    messages: &[&EventId],
) -> Result<HashMap<String, StepState>, DriverError> {
    let ids: Vec<&str> = messages.iter().map(|message| message.as_str()).collect();
    let filter = doc! { "_id": { "$in": ids }, "slot": i32::from(Lane::QUEUE.0) };
    let find = Find { filter, fields: Some(doc! { "status": 1 }), ..Find::default() };
    let found = call.find(&call.names().event, find).await?;
    let state = |row: &mongodb::bson::RawDocumentBuf| {
        let mut fields = Fields::new(row);
        (fields.id().to_string(), StepState::of(fields.status()))
    };
    Ok(found.iter().map(state).collect())
}

async fn show(call: &mut Call<'_>, join: &JoinId, members: usize) -> Result<Option<JoinShown>, DriverError> {
    head(call).await?;
    let Some(record) = join_record::read(call, join).await? else { return Ok(None) };
    let mut shown = JoinShown { join: record, members: Vec::new() };
    if members > 0 {
        let filter = doc! { "join": join.as_str() };
        let sort = Some(doc! { "message": 1 });
        let find = Find { filter, sort, limit: members, ..Find::default() };
        let found = call.find(&call.names().member, find).await?;
        shown.members = found.iter().map(read_member).collect::<Result<_, _>>()?;
    }
    Ok(Some(shown))
}

async fn list(call: &mut Call<'_>, request: &ListJoins) -> Result<Vec<JoinRecord>, DriverError> {
    head(call).await?;
    if request.limit == 0 {
        return Ok(Vec::new());
    }
    let mut filter = doc! {};
    filter.extend(request.grouping_key.as_ref().map(|key| ("grouping_key".to_owned(), Bson::from(key))));
    let status = request.status.map(|status| Bson::from(i32::from(status.code())));
    filter.extend(status.map(|status| ("status".to_owned(), status)));
    let sort = Some(doc! { "created_at": -1, "_id": -1 });
    join_record::find(call, Find { filter, sort, limit: request.limit, ..Find::default() }).await
}
