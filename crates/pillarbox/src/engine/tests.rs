//! The core alone: what it reads and sends next.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::Sizing;
use super::core::{Core, GROUPS_MAX};
use super::sources::{Asked, ClaimSource, Clock, Read, ReadResult};
use super::state::held::HeldList;
use super::state::settings::EngineSettings;
use super::state::settle_queue::Unsettled;
use super::steps::dispatch::{Delivered, Next};
use super::steps::settlement::NextSettle;
use crate::model::{Event, EventId, GroupKey, Lane, NodeId, OwnerId, Row, Seq, Slot, Status, Token};
use crate::port::{
    Change, Counts, Cursor, DeliveryPath, Fence, Fetched, HeldSlot, Membership, Order, Outcome, Scope,
    Settled, Verdict,
};
use crate::rules::Lease;

const SLOT: Slot = Slot(5);

fn group() -> GroupKey {
    GroupKey::new("account/1")
}

fn list(epoch: i64, held: &[GroupKey]) -> Option<HeldList> {
    Some(HeldList { epoch, groups: held.iter().cloned().collect() })
}

fn membership() -> Membership {
    Membership {
        lane: Lane::FIRST,
        held: vec![HeldSlot { slot: SLOT, suspect: false, quarantine: None }],
        give: Vec::new(),
        nodes: 1,
        groups: None,
        ready: false,
        next_due: None,
        oldest: None,
        now: Timestamp::UNIX_EPOCH,
    }
}

fn merge(core: &mut Core, answer: ReadResult, now: Instant) -> Vec<Outcome> {
    let incarnation = core.incarnation();
    core.merge(answer, incarnation, Asked { at: now, now })
}

/// A node that has just joined and reads these rows.
fn node(held: &[GroupKey], rows: Vec<Row>, now: Instant) -> Core {
    let settings = EngineSettings { order: Order::PerGroup, ..EngineSettings::default() };
    let mut core = Core::new(settings, 1);
    core.registered(NodeId::from_random(1), &membership(), list(1, held), now, now);
    let Read::Slots { version, .. } = core.next_read(now) else { panic!("a new node reads its slots") };
    let cursor = Cursor { decided: Seq(9), ..Cursor::default() };
    let fetched = Fetched { rows, cursor, more: false, now: Timestamp::UNIX_EPOCH };
    merge(&mut core, ReadResult::Slots { fetched, version }, now);
    core
}

fn row(seq: i64) -> Row {
    let event = Event::text("a", "{}").group("account/1").build().unwrap();
    Row {
        seq: Seq(seq),
        id: EventId::from_row(seq.to_string()),
        slot: SLOT,
        status: Status::New,
        attempts: 0,
        created_at: Timestamp::UNIX_EPOCH,
        available_at: Timestamp::UNIX_EPOCH,
        expires_at: None,
        last_error: None,
        lapsed: false,
        token: Token::default(),
        group: Some(group()),
        bytes: event.size(),
        event: Ok(event),
    }
}

/// PBX-010, EVT-141
#[test]
fn a_group_that_is_let_go_is_read_from_before_what_was_seen_of_it() {
    let now = Instant::now();
    let mut core = node(&[], vec![row(7)], now);
    let Next::Job(job) = core.next_job(now) else { panic!("it is delivered") };
    core.renewed(&[], &membership(), list(2, &[group()]), now, now);
    core.renewed(&[], &membership(), list(3, &[]), now, now);
    core.finish(job, Delivered::Verdicts(vec![Verdict::Accepted]), now);
    let Read::Group { key, fetch } = core.next_read(now) else { panic!("the group is read") };
    assert_eq!(key, group());
    assert!(matches!(fetch.scope, Scope::Group { from: Seq(0), .. }), "{:?}", fetch.scope);
}

/// PBX-100: as many as there may be groups in memory.
#[test]
fn held_groups_take_no_place_in_memory_and_reading_goes_on() {
    let now = Instant::now();
    let groups = |from: usize| (from..from + GROUPS_MAX).map(|n| GroupKey::new(format!("held/{n}")));
    let held: Vec<GroupKey> = groups(0).collect();
    let of = |(seq, group): (i64, &GroupKey)| Row { group: Some(group.clone()), ..row(seq) };
    let mut core = node(&held, (1..).zip(&held).map(of).collect(), now);
    core.hint();
    let Read::Slots { fetch, .. } = core.next_read(now) else { panic!("it reads on") };
    assert!(matches!(&fetch.scope, Scope::Slots { cursor, .. } if cursor.decided == Seq(9)));
}

/// PBX-100: as above, of groups whose heads died here.
#[test]
fn groups_that_were_blocked_here_leave_memory_once_the_store_lists_them() {
    let now = Instant::now();
    let mut core = node(&[], vec![row(7)], now);
    let Next::Job(job) = core.next_job(now) else { panic!("it is delivered") };
    core.finish(job, Delivered::Verdicts(vec![Verdict::Rejected { error: "no".to_owned() }]), now);
    let later = now + Duration::from_secs(1);
    let NextSettle::Batch { batch, incarnation, .. } = core.next_settle(later) else {
        panic!("it is settled")
    };
    core.settled(batch, &Settled::all_but(Vec::new()), incarnation, later);
    assert_eq!(core.groups.len(), 1, "its block is not in a list yet");
    core.next_heartbeat(NodeId::from_random(1), later);
    core.renewed(&[], &membership(), list(2, &[group()]), later, later);
    assert_eq!(core.groups.len(), 0);
}

/// PBX-010, PBX-100: what the read shows may come behind an event that was brought back since.
#[test]
fn a_read_begun_before_a_group_was_let_go_brings_nothing_in() {
    let now = Instant::now();
    let mut core = node(&[group()], Vec::new(), now);
    core.hint();
    let Read::Slots { version, .. } = core.next_read(now) else { panic!("the slots are read") };
    core.renewed(&[], &membership(), list(2, &[]), now, now);
    let cursor = Cursor { decided: Seq(20), ..Cursor::default() };
    let fetched = Fetched { rows: vec![row(20)], cursor, more: false, now: Timestamp::UNIX_EPOCH };
    merge(&mut core, ReadResult::Slots { fetched, version }, now);
    assert!(matches!(core.next_job(now), Next::Wait(_)), "the dead head comes first");
}

/// PBX-063, PBX-100
#[test]
fn a_held_group_of_a_slot_in_quarantine_is_tried_with_care_when_it_is_let_go() {
    let now = Instant::now();
    let settings = EngineSettings { order: Order::PerGroup, ..EngineSettings::default() };
    let mut core = Core::new(settings, 1);
    let mut taken = membership();
    taken.held[0].suspect = true;
    core.registered(NodeId::from_random(1), &taken, list(1, &[group()]), now, now);
    let Read::Slots { version, .. } = core.next_read(now) else { panic!("a new node reads its slots") };
    let cursor = Cursor { decided: Seq(9), ..Cursor::default() };
    let fetched = Fetched { rows: vec![row(7)], cursor, more: false, now: Timestamp::UNIX_EPOCH };
    merge(&mut core, ReadResult::Slots { fetched, version }, now);
    core.renewed(&[], &membership(), list(2, &[]), now, now);
    let Read::Group { key, .. } = core.next_read(now) else { panic!("the group is read") };
    let cursor = Cursor::default();
    let fetched = Fetched { rows: vec![row(7)], cursor, more: false, now: Timestamp::UNIX_EPOCH };
    merge(&mut core, ReadResult::Group { key, fetched }, now);
    assert!(matches!(core.next_job(now), Next::Wait(_)), "its attempt is written first");
}

/// PBX-010, EVT-141
#[test]
fn a_group_with_nothing_but_its_dead_head_is_found_again() {
    let now = Instant::now();
    let mut core = node(&[group()], Vec::new(), now);
    core.renewed(&[], &membership(), list(2, &[]), now, now);
    let Read::Slots { fetch, .. } = core.next_read(now) else { panic!("the slots are read") };
    assert!(matches!(&fetch.scope, Scope::Slots { cursor, .. } if cursor.decided == Seq(0)));
}

/// PBX-010, PBX-014: the time of a row may be read after that of the read which sees it.
#[test]
fn a_row_a_moment_ahead_of_its_reader_keeps_its_place() {
    let (now, ahead) = (Instant::now(), Duration::from_micros(100));
    let mut replayed = row(3);
    replayed.available_at = Timestamp::UNIX_EPOCH + ahead;
    let mut core = node(&[], vec![replayed, row(7)], now);
    assert!(matches!(core.next_job(now), Next::Wait(Some(until)) if until == now + ahead));
    let Read::Group { fetch, .. } = core.next_read(now + ahead) else { panic!("the group is read") };
    assert!(matches!(fetch.scope, Scope::Group { from: Seq(3), .. }), "{:?}", fetch.scope);
}

/// PBX-010, PBX-014: nobody asked for a delay of a row that is available from its birth, whatever its clock said.
#[test]
fn a_row_written_by_a_clock_that_is_ahead_is_due() {
    let now = Instant::now();
    let mut early = row(3);
    early.created_at = Timestamp::UNIX_EPOCH + Duration::from_secs(60);
    early.available_at = early.created_at;
    let mut core = node(&[], vec![early, row(7)], now);
    let Next::Job(job) = core.next_job(now) else { panic!("it is due") };
    assert_eq!(job.items[0].seq, Seq(3));
}

/// PBX-011: an outcome named a number that another event has now, so that numbers below the cursor may be new.
#[test]
fn numbers_that_were_given_again_are_read_from_the_beginning() {
    let now = Instant::now();
    for (reused, from) in [(false, Seq(9)), (true, Seq(0))] {
        let mut core = node(&[], vec![row(7)], now);
        let Next::Job(job) = core.next_job(now) else { panic!("it is delivered") };
        core.finish(job, Delivered::Verdicts(vec![Verdict::Accepted]), now);
        let later = now + Duration::from_secs(1);
        let NextSettle::Batch { batch, incarnation, .. } = core.next_settle(later) else {
            panic!("it is settled")
        };
        core.settled(batch, &Settled { reused, ..Settled::all_but(vec![0]) }, incarnation, later);
        core.hint();
        let Read::Slots { fetch, .. } = core.next_read(later) else { panic!("the slots are read") };
        assert!(matches!(&fetch.scope, Scope::Slots { cursor, .. } if cursor.decided == from), "{reused}");
    }
}

/// PBX-010, PBX-011: the group waits behind number 7. A crash takes 7 back; 5 and 8 are written after it.
#[test]
fn a_group_is_read_from_the_beginning_when_its_numbers_were_given_again() {
    let now = Instant::now();
    let mut late = row(7);
    let ahead = Duration::from_micros(100);
    late.available_at = Timestamp::UNIX_EPOCH + ahead;
    let mut core = node(&[], vec![late], now);
    let later = now + ahead;
    let Read::Group { key, fetch } = core.next_read(later) else { panic!("the group is read") };
    assert!(matches!(fetch.scope, Scope::Group { from: Seq(7), .. }), "{:?}", fetch.scope);
    let cursor = Cursor { origin: 2, ..Cursor::default() };
    let fetched = |rows| Fetched { rows, cursor: cursor.clone(), more: false, now: Timestamp::UNIX_EPOCH };
    merge(&mut core, ReadResult::Group { key, fetched: fetched(vec![row(8)]) }, later);
    assert!(matches!(core.next_job(later), Next::Wait(_)), "5 comes first");
    let Read::Group { key, fetch } = core.next_read(later) else { panic!("the group is read again") };
    assert!(matches!(fetch.scope, Scope::Group { from: Seq(1), .. }), "{:?}", fetch.scope);
    merge(&mut core, ReadResult::Group { key, fetched: fetched(vec![row(5), row(8)]) }, later);
    let Next::Job(job) = core.next_job(later) else { panic!("it is delivered") };
    assert_eq!(job.items[0].seq, Seq(5));
}

/// PBX-074
#[test]
fn a_message_claimed_again_before_the_answer_to_its_outcome_is_given_back() {
    let now = Instant::now();
    let mut core = Core::new(EngineSettings::default(), 1);
    core.settle_by(Fence::Owner(OwnerId::random()));
    core.read_from(ClaimSource::default());
    let clock = Clock { database: Timestamp::UNIX_EPOCH, here: now };
    let claimed = |token: i64, core: &mut Core, row: &Row| {
        let row = Row { token: Token(token), attempts: 1, ..row.clone() };
        merge(core, ReadResult::Claimed { rows: vec![row], clock, until: now + Duration::from_secs(30) }, now)
    };
    let event = Event::text("a", "{}").id("7").build().unwrap();
    let row = Row { event: Ok(event), ..row(7) };
    assert!(claimed(1, &mut core, &row).is_empty());
    let Next::Job(job) = core.next_job(now) else { panic!("it is handled") };
    let failed = Verdict::Failed { error: "no".to_owned(), after: Some(Duration::ZERO) };
    core.finish(job, Delivered::Verdicts(vec![failed]), now);
    let NextSettle::Batch { batch, incarnation, .. } = core.next_settle(now + Duration::from_secs(1)) else {
        panic!("it is settled")
    };
    let back = claimed(2, &mut core, &row);
    assert_eq!(
        back.iter().map(|one| (one.token, &one.change)).collect::<Vec<_>>(),
        [(Token(2), &Change::Release { attempts: 0 })]
    );
    merge(&mut core, ReadResult::GaveBack, now);
    assert!(!core.signals(None).read, "it would be given back again");
    core.settled(
        batch,
        &Settled { held: true, stale: Vec::new(), busy: Vec::new(), reused: false },
        incarnation,
        now,
    );
    assert!(core.signals(None).read, "now it can be had");
    assert!(!core.signals(None).read, "told once");
    assert!(claimed(3, &mut core, &row).is_empty());
    assert!(matches!(core.next_job(now), Next::Job(_)));
}

/// PBX-070: a poller claims an event again before the answer to its outcome.
#[test]
fn a_claim_of_a_poller_that_follows_a_settled_outcome_is_given_back() {
    let now = Instant::now();
    let mut core = Core::new(EngineSettings::default(), 1);
    core.settle_by(Fence::Owner(OwnerId::random()));
    let event = Event::text("a", "{}").id("7").build().unwrap();
    let claimed = |token, attempts| Row { event: Ok(event.clone()), token: Token(token), attempts, ..row(7) };
    assert!(core.hand_in(claimed(1, 1), DeliveryPath::Cold, now));
    let Next::Job(job) = core.next_job(now) else { panic!("it is delivered") };
    let failed = Verdict::Failed { error: "no".to_owned(), after: Some(Duration::ZERO) };
    core.finish(job, Delivered::Verdicts(vec![failed]), now);
    let settle = |core: &mut Core, after: u64, again: Option<Row>| {
        let at = now + Duration::from_secs(after);
        let NextSettle::Batch { batch, incarnation, .. } = core.next_settle(at) else { panic!("it settles") };
        assert!(again.is_none_or(|row| core.hand_in(row, DeliveryPath::Cold, at)));
        let outcome = batch.outcomes[0].clone();
        core.settled(batch, &Settled::all_but(Vec::new()), incarnation, at);
        (outcome.token, outcome.change)
    };
    assert_eq!(settle(&mut core, 1, Some(claimed(2, 2))).0, Token(1));
    assert_eq!(settle(&mut core, 2, None), (Token(2), Change::Release { attempts: 1 }));
    assert!(core.all_settled());
    assert!(core.hand_in(claimed(3, 2), DeliveryPath::Cold, now));
    assert!(matches!(core.next_job(now), Next::Job(_)));
}

/// PBX-014: a store may settle a batch in any order, and another may have locked the row for one part of it.
#[test]
fn an_attempt_is_written_before_what_came_of_it() {
    let now = Instant::now();
    let mut core = Core::new(EngineSettings::default(), 1);
    let dead = Change::Dead { error: "no".to_owned(), counts: Counts::NotMade(0), blocks: None };
    let attempt = Change::Attempt { attempts: 1 };
    for change in [attempt.clone(), dead.clone()] {
        let outcome =
            Outcome { seq: Seq(7), id: EventId::from_row("7".to_owned()), token: Token::default(), change };
        core.push_unsettled(Unsettled { outcome, slot: SLOT, group: None }, now);
    }
    let mut settled = Vec::new();
    for second in 1..4 {
        let at = now + Duration::from_secs(second);
        let NextSettle::Batch { batch, incarnation, .. } = core.next_settle(at) else { panic!("it settles") };
        settled.push(batch.outcomes.iter().map(|outcome| outcome.change.clone()).collect::<Vec<_>>());
        let busy = if second == 1 { vec![0] } else { Vec::new() };
        core.settled(batch, &Settled { busy, ..Settled::all_but(Vec::new()) }, incarnation, at);
    }
    assert_eq!(settled, [vec![attempt.clone()], vec![attempt], vec![dead]]);
    assert!(core.all_settled());
}

/// A worker of the queue that has claimed these many messages.
fn worker_with(messages: i64, sizing: Sizing, now: Instant) -> Core {
    let mut core = Core::new(EngineSettings::default(), 1);
    core.settle_by(Fence::Owner(OwnerId::random()));
    core.size_claims(sizing, Lease::default());
    core.read_from(ClaimSource::default());
    let message = |seq: i64| {
        let event = Event::text("a", "{}").id(seq.to_string()).build().unwrap();
        Row { event: Ok(event), token: Token(1), attempts: 1, ..row(seq) }
    };
    let clock = Clock { database: Timestamp::UNIX_EPOCH, here: now };
    let rows = (1..=messages).map(message).collect();
    let until = now + Duration::from_secs(30);
    assert!(merge(&mut core, ReadResult::Claimed { rows, clock, until }, now).is_empty());
    core
}

/// Handles one message, which takes this long.
fn handle_one(core: &mut Core, now: Instant, took: Duration) {
    let Next::Job(job) = core.next_job(now) else { panic!("it is handled") };
    core.finish(job, Delivered::Verdicts(vec![Verdict::Accepted]), now + took);
}

/// PBX-130
#[test]
fn a_worker_whose_handlers_become_slow_returns_what_it_has_not_begun() {
    let now = Instant::now();
    let mut core = worker_with(100, Sizing::FollowsHandlers, now);
    handle_one(&mut core, now, Duration::from_secs(1));
    assert!(matches!(core.next_claim(now), Read::Idle(_)), "no more than two for each worker are wanted");
    assert_eq!(core.depths().1, 4 * 8);
    let NextSettle::Batch { batch, .. } = core.next_settle(now) else { panic!("it is settled") };
    let is_release = |one: &&Outcome| matches!(one.change, Change::Release { .. });
    assert_eq!(batch.outcomes.iter().filter(is_release).count(), 99 - 4 * 8);
    assert_eq!(batch.outcomes.last().unwrap().seq, Seq(100), "the last ones, in the order of their numbers");
}

/// PBX-130
#[test]
fn a_worker_with_a_fixed_batch_keeps_what_it_has_claimed() {
    let now = Instant::now();
    let mut core = worker_with(100, Sizing::Fixed, now);
    handle_one(&mut core, now, Duration::from_secs(1));
    assert!(matches!(core.next_claim(now), Read::Claim { rows: 901, .. }));
    assert_eq!(core.depths().1, 99);
}

/// PBX-131
#[test]
fn outcomes_of_claims_wait_for_half_a_claim_at_most() {
    let now = Instant::now();
    let mut core = worker_with(40, Sizing::FollowsHandlers, now);
    // Four workers at 10 ms a message: 40 may be in memory.
    for handled in 1..=20 {
        assert!(!matches!(core.next_settle(now), NextSettle::Batch { .. }), "{handled}");
        handle_one(&mut core, now, Duration::from_millis(10));
    }
    let NextSettle::Batch { batch, .. } = core.next_settle(now) else { panic!("it is settled") };
    assert_eq!(batch.outcomes.len(), 20);
}

/// OBX-059: the claim was asked for before the renewal, which could not include its rows yet.
#[test]
fn a_renewal_does_not_prolong_a_claim_that_was_still_under_way() {
    let now = Instant::now();
    let mut core = worker_with(1, Sizing::Fixed, now);
    let renewed = now + Duration::from_secs(40);
    core.extended(&[], &Settled::all_but(Vec::new()), renewed);
    assert_eq!(core.claimed_until(), Some(renewed));
    let event = Event::text("a", "{}").id("2").build().unwrap();
    let late = Row { event: Ok(event), token: Token(1), attempts: 1, ..row(2) };
    let clock = Clock { database: Timestamp::UNIX_EPOCH, here: now };
    let until = now + Duration::from_secs(30);
    assert!(merge(&mut core, ReadResult::Claimed { rows: vec![late], clock, until }, now).is_empty());
    assert_eq!(core.claimed_until(), Some(until));
}

/// The events of a batch.
fn taken(next: NextSettle) -> (Vec<String>, impl FnOnce(&mut Core, Instant)) {
    let NextSettle::Batch { batch, incarnation, .. } = next else { panic!("it settles") };
    let ids = batch.outcomes.iter().map(|outcome| outcome.id.to_string()).collect();
    (ids, move |core: &mut Core, now| core.settled(batch, &Settled::all_but(Vec::new()), incarnation, now))
}

/// PBX-148
#[test]
fn two_batches_at_once_have_no_event_and_no_slot_in_common() {
    let now = Instant::now();
    let mut core = Core::new(EngineSettings { settle_rows: 4, ..EngineSettings::default() }, 1);
    core.settle_two_at_once();
    let unsettled = |id: &str, slot: i16, change| {
        let (seq, token) = (Seq(7), Token::default());
        let outcome = Outcome { seq, id: EventId::from_row(id.to_owned()), token, change };
        Unsettled { outcome, slot: Slot(slot), group: None }
    };
    let push = |core: &mut Core, id: &str, slot| core.push_unsettled(unsettled(id, slot, Change::Done), now);
    for (id, slot) in [("a", 4), ("b", 5), ("c", 4), ("d", 5), ("e", 6)] {
        push(&mut core, id, slot);
    }
    let at = now + Duration::from_secs(1);
    let (first, answer_first) = taken(core.next_settle(at));
    assert_eq!(first, ["a", "c", "e"]);
    assert!(core.signals(None).settle_second, "there is enough for another batch");
    let (second, answer_second) = taken(core.next_second_settle(at));
    assert_eq!(second, ["b", "d"]);

    push(&mut core, "f", 5);
    answer_first(&mut core, at);
    assert!(matches!(core.next_settle(at), NextSettle::Beside), "its slot is being settled");
    assert!(!core.signals(None).settle);
    push(&mut core, "g", 4);
    assert!(core.signals(None).settle);
    let later = at + Duration::from_secs(1);
    let (third, answer_third) = taken(core.next_settle(later));
    assert_eq!(third, ["g"]);

    // A note may be about an event of either batch.
    assert!(core.settles.note(unsettled("d", 5, Change::Waits { error: "no".to_owned() })));
    answer_third(&mut core, later);
    assert!(matches!(core.next_settle(later), NextSettle::Beside));
    answer_second(&mut core, later);
    assert!(matches!(core.next_second_settle(later), NextSettle::Empty));
    let (note, answer) = taken(core.next_settle(later));
    assert_eq!(note, ["d"]);
    answer(&mut core, later);
    let (last, answer) = taken(core.next_settle(later + Duration::from_secs(1)));
    assert_eq!(last, ["f"]);
    answer(&mut core, later);
    assert!(core.all_settled());
}

/// PBX-148: two small batches cost more than one.
#[test]
fn what_fits_into_one_batch_is_settled_in_one() {
    let now = Instant::now();
    let settings = EngineSettings { order: Order::PerGroup, ..EngineSettings::default() };
    let mut core = Core::new(settings, 1);
    core.settle_two_at_once();
    for number in 0..1_000_i16 {
        let (id, change) = (EventId::from_row(number.to_string()), Change::Done);
        let outcome = Outcome { seq: Seq(number.into()), id, token: Token::default(), change };
        core.push_unsettled(Unsettled { outcome, slot: Slot(number % 64), group: None }, now);
    }
    let (batch, _) = taken(core.next_settle(now + Duration::from_secs(1)));
    assert_eq!(batch.len(), 1_000);
    assert!(!core.signals(None).settle_second);
}
