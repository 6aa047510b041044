//! Requests that the stores' own tests make, with most fields at their usual value.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use pillarbox::model::{
    Continuation, Event, EventId, FailedSteps, JoinId, JoinStatus, JoinWait, NewRow, NodeId, OwnerId,
    Placement, Row, Slot, SlotSet, Written,
};
use pillarbox::port::{
    ByteLimits, Change, Claim, ClaimFrom, Cursor, Fence, Fetch, Fetched, JoinAction, JoinChange, JoinChanged,
    Joins, OnDone, Outcome, ReadScope, Register, Scope, Settle, Store, Write,
};

/// The node with this number.
#[must_use]
pub fn node(number: u128) -> NodeId {
    NodeId::from_random(number)
}

/// A row whose group is an account.
///
/// # Panics
/// If the id or the group is not valid.
#[must_use]
pub fn account_row(id: &str, account: &str) -> NewRow {
    let event = Event::text("OrderPlaced", "{\"total\":1}").id(id).aggregate("Account", account);
    NewRow { event: event.build().expect("a valid event"), placement: Placement::Slot }
}

/// A plain writer's statement for a row whose group is an account.
#[must_use]
pub fn account_insert(id: &str, account: &str) -> String {
    format!(
        "INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, payload) \
         VALUES ('{id}', 'OrderPlaced', 'Account', '{account}', '{{}}')"
    )
}

/// Registers the node with this number for a share of the slots.
#[must_use]
pub fn register(number: u128, lease: Duration) -> Register {
    Register { node: node(number), label: "test".to_owned(), reads: ReadScope::Share, lease, now: None }
}

/// Reads at most `rows` rows of every slot from a cursor on.
///
/// # Panics
/// If the store fails.
pub async fn fetch_all(store: &dyn Store, cursor: Cursor, rows: usize) -> Fetched {
    let scope = Scope::Slots { slots: SlotSet::new((0..100).map(Slot)), cursor };
    let request = Fetch { scope, rows, bytes: ByteLimits::NONE, skip_recent: Duration::ZERO, now: None };
    store.fetch(request).await.expect("rows")
}

/// A change of a written row.
#[must_use]
pub fn outcome(written: &Written, change: Change) -> Outcome {
    Outcome { seq: written.seq, id: written.id.clone(), token: Default::default(), change }
}

/// The same change of several rows, by a node.
#[must_use]
pub fn settle(by: u128, written: &[Written], on_done: OnDone, change: &Change) -> Settle {
    let outcomes = written.iter().map(|one| outcome(one, change.clone())).collect();
    Settle { fence: Fence::Node(node(by)), outcomes, on_done, repeats: None, now: None }
}

/// The owner of all claims.
///
/// # Panics
/// Never: the name is valid.
#[must_use]
pub fn owner() -> OwnerId {
    OwnerId::new("ann").expect("a valid owner")
}

/// A message for the queue.
///
/// # Panics
/// If the id is not valid.
#[must_use]
pub fn message(id: &str) -> NewRow {
    let event = Event::text("Extract", "{}").id(id).build().expect("a valid event");
    NewRow { event, placement: Placement::Queue }
}

/// Puts messages into the queue and claims all that are there.
///
/// # Panics
/// If the store fails.
pub async fn claim_messages(store: &dyn Store, ids: &[&str]) -> Vec<Row> {
    let rows = ids.iter().map(|id| message(id)).collect();
    store.write(Write { rows, now: None }).await.expect("written rows");
    let claim = Claim {
        topics: Arc::default(),
        from: ClaimFrom::Queue,
        owner: owner(),
        lease: Duration::from_secs(60),
        rows: 100,
        bytes: ByteLimits::NONE,
        skip_recent: Duration::ZERO,
        now: None,
    };
    store.claim(claim).await.expect("claimed rows")
}

/// Completes messages that [`claim_messages`] returned.
#[must_use]
pub fn complete(rows: &[Row], on_done: OnDone) -> Settle {
    let done =
        |row: &Row| Outcome { seq: row.seq, id: row.id.clone(), token: row.token, change: Change::Done };
    let outcomes = rows.iter().map(done).collect();
    Settle { fence: Fence::Owner(owner()), outcomes, on_done, repeats: None, now: None }
}

/// A change of a join.
#[must_use]
pub fn change_join(join: &str, action: JoinAction) -> JoinChange {
    JoinChange { join: JoinId::from_row(join), action, now: None }
}

/// Attaches messages to a join.
#[must_use]
pub fn attach(join: &str, messages: &[&str]) -> JoinChange {
    let messages = messages.iter().map(|message| EventId::from_row(*message)).collect();
    change_join(join, JoinAction::Attach { messages })
}

/// Starts a join of this many steps, whose continuation is the message `JOIN-next`.
///
/// # Panics
/// If the store fails, or if the join exists.
pub async fn start_waiting(store: &dyn Joins, join: &str, expected: u32, failed_steps: FailedSteps) {
    let start = JoinAction::Start { grouping_key: None, expected, metadata: None };
    let wait = JoinAction::Wait(JoinWait {
        failed_steps,
        on_complete: Some(Continuation { topic: "Transform".to_owned(), payload: "{}".to_owned() }),
        on_fail: None,
        message: EventId::from_row(format!("{join}-next")),
        headers: None,
    });
    for action in [start, wait] {
        let changed = store.change_join(change_join(join, action)).await.expect("a change");
        assert_eq!(changed, JoinChanged::Changed);
    }
}

/// The status of a join.
///
/// # Panics
/// If the store fails, or if there is no such join.
pub async fn join_status(store: &dyn Joins, join: &str) -> JoinStatus {
    let shown = store.show_join(JoinId::from_row(join), 0).await.expect("an answer");
    shown.expect("the join").join.status
}

/// Polls a call at most this many times, and drops it. Returns its answer if that was enough.
pub async fn within<T>(polls: usize, call: impl Future<Output = T>) -> Option<T> {
    let mut call = pin!(call);
    let mut left = polls;
    std::future::poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match call.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            // The last poll was not enough: the call goes no further.
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
