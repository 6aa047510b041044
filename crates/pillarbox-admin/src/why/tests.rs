//! Each reason, from facts alone.

use std::time::Duration;

use jiff::Timestamp;
use pillarbox::model::{Event, EventId, GroupKey, Lane, NodeId, Record, Seq, Slot, Status, Token};
use pillarbox::port::{AuditEntry, GroupState, HeldGroup, NodeInfo, TransactionInfo};
use pillarbox::rules::SlotRecord;

use super::*;

const SLOT: Slot = Slot(3);
const GROUP: &str = "Order/7";

/// A time, counted from a second that stands for now.
fn second(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap_or_else(|error| panic!("{error}"))
}

fn row(id: &str) -> Record {
    let event = Event::text("order.placed", "{}").id(id).group(GROUP).build();
    Record {
        seq: Seq(10),
        id: EventId::from_row(id),
        slot: SLOT,
        status: Status::New,
        attempts: 0,
        created_at: second(-5),
        available_at: second(-5),
        expires_at: None,
        done_at: None,
        last_error: None,
        processed_by: None,
        locked_by: None,
        locked_until: None,
        token: Token(0),
        group: Some(GroupKey::new(GROUP)),
        event: Ok(event.unwrap_or_else(|error| panic!("{error}"))),
    }
}

fn node(number: u64, lane: Lane, lease_left: i64) -> NodeInfo {
    let left = u64::try_from(lease_left).ok().filter(|left| *left > 0);
    NodeInfo {
        node: NodeId::from_random(number.into()),
        label: format!("node-{number}"),
        lane,
        slots: 1,
        joined_at: second(-100),
        expires_in: left.map(Duration::from_secs),
        expires_at: second(lease_left),
        state: None,
    }
}

fn held_by(node: Option<&NodeInfo>, evictions: u32) -> SlotRecord {
    let is_suspect = node.is_none() && evictions > 0;
    SlotRecord::new(SLOT, node.map(|node| node.node), is_suspect, evictions, Seq(10))
}

/// A pending event in the slot of a living node.
fn calm() -> Situation {
    let node = node(1, Lane(64), 12);
    let blank = Situation::without_facts(second(0), EventId::from_row("e"), Some(row("e")));
    Situation {
        slot: Some(held_by(Some(&node), 0)),
        nodes: Some(vec![node]),
        open: Some(Vec::new()),
        ..blank
    }
}

/// The calm situation with a row that differs.
fn with(change: impl FnOnce(&mut Record)) -> Situation {
    let mut record = row("e");
    change(&mut record);
    Situation { record: Some(record), ..calm() }
}

fn with_nodes(nodes: Vec<NodeInfo>, slot: SlotRecord) -> Situation {
    Situation { nodes: Some(nodes), slot: Some(slot), ..calm() }
}

fn with_sink(breaker: &str, recovered_at: &str) -> Situation {
    let state = format!(
        r#"{{"process":null,"sink":{{"breaker":"{breaker}","last_failure":{{"class":"refused","error":"connection refused",
        "since":"2023-11-14T22:00:00Z","last_at":"2023-11-14T22:13:00Z","requests":7,"recovered_at":{recovered_at}}},
        "next_attempt_at":"2023-11-14T22:13:30Z"}}}}"#
    );
    let node = NodeInfo { state: Some(state), ..node(1, Lane(64), 12) };
    with_nodes(vec![node.clone()], held_by(Some(&node), 0))
}

fn held(state: GroupState, event: Option<&str>) -> HeldGroup {
    HeldGroup {
        group: GroupKey::new(GROUP),
        state,
        event: event.map(EventId::from_row),
        reason: Some("under review\nfurther lines".to_owned()),
        by: "cli/ann".to_owned(),
        since: second(-60),
    }
}

fn open(began: i64, locks_row: bool) -> Option<Vec<TransactionInfo>> {
    let application = Some("psql".to_owned());
    Some(vec![TransactionInfo {
        session: "4711".to_owned(),
        application,
        began_at: Some(second(began)),
        locks_row,
    }])
}

fn deleted(action: &str) -> Situation {
    let entry = AuditEntry {
        at: second(-60),
        by: "cli/ann".to_owned(),
        action: action.to_owned(),
        target: "e".to_owned(),
    };
    let blank = Situation::without_facts(second(0), EventId::from_row("e"), None);
    Situation { deleted: Some(entry), ..blank }
}

fn dead(record: &mut Record, error: &str) {
    record.status = Status::Dead;
    record.done_at = Some(second(-30));
    record.last_error = Some(error.to_owned());
}

fn retry(record: &mut Record, error: &str) {
    record.status = Status::Retry;
    record.attempts = 2;
    record.available_at = second(90);
    record.last_error = Some(error.to_owned());
}

fn message(record: &mut Record) {
    record.slot = Lane::QUEUE.slot();
    record.group = None;
}

/// A situation, its reason and how its sentence begins.
type Explained = (Situation, Reason, &'static str);

/// Every situation.
fn cases() -> Vec<Explained> {
    [of_one_event(), of_groups_and_claims(), of_nodes()].concat()
}

fn of_one_event() -> Vec<Explained> {
    use Reason::{Cancelled, Dead, Delivered, Discarded, Expired, NoListener, NotDue, Retry};
    vec![
        (
            with(|r| (r.status, r.done_at) = (Status::Done, Some(second(-9)))),
            Delivered,
            "It was delivered at 2023-11-14T22:13:11Z.",
        ),
        (
            with(|r| dead(r, "timed out\nsecret")),
            Dead,
            "It has been dead since 2023-11-14T22:12:50Z: timed out.",
        ),
        (
            with(|r| dead(r, "no listener for order.placed")),
            NoListener,
            "It has been dead since 2023-11-14T22:12:50Z: there is no listener for order.placed.",
        ),
        (
            with(|r| dead(r, "expired before it was delivered")),
            Expired,
            "It expired, before it was delivered, and has been dead",
        ),
        (
            deleted("cancel"),
            Cancelled,
            "It was cancelled by cli/ann at 2023-11-14T22:12:20Z, before it was delivered.",
        ),
        (deleted("discard"), Discarded, "It was dead, and was discarded by cli/ann"),
        (
            with(|r| r.expires_at = Some(second(-1))),
            Expired,
            "It expired at 2023-11-14T22:13:19Z, before it was delivered",
        ),
        (with(|r| r.available_at = second(90)), NotDue, "It is not due until 2023-11-14T22:14:50Z (in 1m)."),
        (
            with(|r| retry(r, "timed out\nsecret")),
            Retry,
            "Attempt 2 failed: timed out. The next attempt is at 2023-11-14T22:14:50Z (in 1m).",
        ),
        (
            with(|r| retry(r, "no listener for mail")),
            NoListener,
            "There is no listener for mail; it is tried again at",
        ),
    ]
}

fn of_groups_and_claims() -> Vec<Explained> {
    use Reason::*;
    let mut behind = row("first");
    behind.seq = Seq(4);
    retry(&mut behind, "timed out");
    let mut blocking = row("poison");
    dead(&mut blocking, "no such currency");
    vec![
        (
            Situation { ahead: Some(behind), ..calm() },
            BehindEvent,
            "It waits behind the event first of its group Order/7",
        ),
        (
            Situation { held: Some(held(GroupState::Paused, None)), ..calm() },
            GroupPaused,
            "Its group Order/7 has been paused by cli/ann since 2023-11-14T22:12:20Z: under review.",
        ),
        (
            Situation {
                held: Some(held(GroupState::Blocked, Some("poison"))),
                ahead: Some(blocking),
                ..calm()
            },
            GroupBlocked,
            "Its group Order/7 has been blocked behind the dead event poison since",
        ),
        (
            with(|r| (r.locked_by, r.locked_until) = (Some("w1".to_owned()), Some(second(30)))),
            Claimed,
            "w1 has claimed it until 2023-11-14T22:13:50Z",
        ),
        (
            with(|r| (r.locked_by, r.locked_until) = (Some("w1".to_owned()), Some(second(-1)))),
            ClaimExpired,
            "The claim of w1 ran out at 2023-11-14T22:13:19Z",
        ),
        (
            with(|r| {
                message(r);
                r.available_at = second(-60);
                r.created_at = second(-60);
            }),
            Unclaimed,
            "It has been due for 1m, and no worker has claimed it",
        ),
        (with(message), NextRead, "Nothing holds it: it is delivered with the next claim of a worker"),
        (
            Situation { open: open(-300, true), ..calm() },
            TransactionOpen,
            "The transaction of session 4711 (psql), open for 5m has locked its row",
        ),
        (calm(), NextRead, "Nothing holds it: node-1 delivers it with its next read."),
    ]
}

fn of_nodes() -> Vec<Explained> {
    use Reason::*;
    let (alive, gone) = (node(1, Lane(64), 12), node(2, Lane(65), -3));
    let alone = node(3, Lane::FIRST_ALONE, 12);
    vec![
        (
            with_sink("open", "null"),
            BreakerOpen,
            "The circuit breaker of the sink of node-1 is open: connection refused (refused), 7 failed requests since 2023-11-14T22:00:00Z. The next probe is at 2023-11-14T22:13:30Z.",
        ),
        (
            with_sink("closed", "null"),
            SinkFailing,
            "The sink of node-1 fails: connection refused (refused), 7 failed requests",
        ),
        (
            with_sink("closed", "\"2023-11-14T22:13:10Z\""),
            NextRead,
            "Nothing holds it: node-1 delivers it with its next read.",
        ),
        (
            with_nodes(vec![alive.clone()], held_by(Some(&alive), 1)),
            Quarantined,
            "It is in quarantine: 1 node died while holding it",
        ),
        (
            with(|r| (r.created_at, r.available_at) = (second(-200), second(-180))),
            HeldByNode,
            "The node node-1 holds it until 2023-11-14T22:13:32Z and renews that: it has been due for 3m",
        ),
        (
            with_nodes(vec![gone.clone(), alive.clone()], held_by(Some(&gone), 0)),
            NodeDied,
            "The node node-2 held it and died: its lease ended at 2023-11-14T22:13:17Z. node-1 takes over",
        ),
        (
            with_nodes(vec![alive.clone()], held_by(None, 1)),
            NodeDied,
            "The node that held it died and was evicted. node-1 takes over",
        ),
        (
            with_nodes(vec![gone.clone()], held_by(Some(&gone), 0)),
            NoNode,
            "No node is alive: the lease of the last one, node-2, ended at 2023-11-14T22:13:17Z.",
        ),
        (with_nodes(Vec::new(), held_by(None, 0)), NoNode, "No node is alive that would deliver it."),
        (
            with_nodes(vec![alone], held_by(None, 0)),
            NoNode,
            "The nodes that are alive deliver only events that they wrote themselves.",
        ),
        (with_nodes(vec![alive], held_by(None, 0)), SlotFree, "No node holds its slot yet: node-1 takes it"),
    ]
}

/// PBX-297
#[test]
fn each_reason_has_its_sentence() {
    let mut seen = Vec::new();
    for (situation, reason, sentence) in cases() {
        let explained = explain(&situation).unwrap_or_else(|| panic!("{reason:?} is explained"));
        assert_eq!(explained.reason, reason, "{explained:#?}");
        assert!(explained.sentence.starts_with(sentence), "{reason:?}: {}", explained.sentence);
        assert!(!format!("{explained:?}").contains("secret"), "later lines of errors may quote payloads");
        assert_eq!(explained.chain[0].reason, reason);
        seen.push(reason);
    }
    let away = without_source(&EventId::from_row("e"), "orders", Some("connection refused"));
    assert_eq!(away.sentence, "The database of the source orders is away: connection refused.");
    seen.extend([away.reason, without_source(&EventId::from_row("e"), "orders", None).reason]);
    let missing: Vec<_> = Reason::ALL.iter().filter(|reason| !seen.contains(reason)).collect();
    assert!(missing.is_empty(), "without a case: {missing:?}");
}

/// PBX-297: whoever is told what holds an event is told what to do, unless time alone does it.
#[test]
fn each_reason_has_its_advice() {
    use Reason::{Cancelled, Delivered, Discarded, NextRead, NotDue, SlotFree};
    for (situation, reason, _) in cases() {
        let explained = explain(&situation).unwrap_or_else(|| panic!("{reason:?} is explained"));
        let by_itself = matches!(reason, Cancelled | Delivered | Discarded | NextRead | NotDue | SlotFree);
        assert_eq!(explained.advice.is_empty(), by_itself, "{explained:#?}");
    }
}

/// PBX-297
#[test]
fn the_chain_ends_at_the_event_that_all_wait_for() {
    let mut first = row("first");
    first.seq = Seq(4);
    retry(&mut first, "timed out");
    let waiting = explain(&Situation { ahead: Some(first), ..calm() });
    let waiting = waiting.unwrap_or_else(|| panic!("it is explained"));
    let links: Vec<_> = waiting.chain.iter().map(|link| (link.event.as_str(), link.reason)).collect();
    assert_eq!(links, [("e", Reason::BehindEvent), ("first", Reason::Retry)]);
    assert!(waiting.chain[1].sentence.starts_with("Attempt 2 failed: timed out."), "{waiting:#?}");
    assert_eq!(waiting.advice, ["remove the cause of the error; it is tried again by itself"]);

    let mut poison = row("poison");
    dead(&mut poison, "no such currency");
    let (held, ahead) = (Some(held(GroupState::Blocked, Some("poison"))), Some(poison));
    let blocked = explain(&Situation { held, ahead, ..calm() }).unwrap_or_else(|| panic!("it is explained"));
    let links: Vec<_> = blocked.chain.iter().map(|link| (link.event.as_str(), link.reason)).collect();
    assert_eq!(links, [("e", Reason::GroupBlocked), ("poison", Reason::Dead)]);
    assert!(blocked.advice.contains(&"or leave it dead and go on: pillarbox groups skip Order/7".to_owned()));
}

/// PBX-297: what would hold the event next is told too.
#[test]
fn several_reasons_are_told_in_the_order_in_which_they_have_to_go() {
    let paused = Some(held(GroupState::Paused, None));
    let later = with(|record| record.available_at = second(90));
    let explained =
        explain(&Situation { held: paused, nodes: Some(Vec::new()), open: open(-300, false), ..later });
    let explained = explained.unwrap_or_else(|| panic!("it is explained"));
    let further: Vec<_> = explained.further.iter().map(|one| one.reason).collect();
    assert_eq!(explained.reason, Reason::GroupPaused);
    assert_eq!(further, [Reason::NotDue, Reason::NoNode, Reason::TransactionOpen]);
}

/// PBX-297: a transaction that passes at once, as settles are, is no reason.
#[test]
fn short_transactions_are_not_told() {
    for locks_row in [true, false] {
        let explained = explain(&Situation { open: open(-1, locks_row), ..calm() });
        let explained = explained.unwrap_or_else(|| panic!("it is explained"));
        assert_eq!((explained.reason, explained.further.len()), (Reason::NextRead, 0));
    }
}

/// PBX-297: what is not known is not guessed.
#[test]
fn facts_that_are_not_known_are_no_reasons() {
    let blank = Situation::without_facts(second(0), EventId::from_row("e"), Some(row("e")));
    let explained = explain(&blank).unwrap_or_else(|| panic!("it is explained"));
    assert_eq!(explained.sentence, "Nothing holds it: it is delivered with the next read.");
    let nobody = Situation { record: None, ..blank };
    assert_eq!(explain(&nobody), None);
    assert!(!unknown(&nobody).contains("session"), "{}", unknown(&nobody));
    let writing = Situation { open: open(-300, false), ..nobody };
    assert!(unknown(&writing).ends_with("open are those of session 4711 (psql), open for 5m"));
}
