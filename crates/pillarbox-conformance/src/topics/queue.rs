//! The work queue: claims by owners, what an owner may do with them, and what happens when it is gone.

use std::time::Duration;

use pillarbox::model::{Event, Row, Status, Token};
use pillarbox::port::{
    Change, Claim, ClaimFrom, Counts, Fence, OnDone, Outcome, Reap, Settle, StoreError, Wait,
};

use crate::case::{Case, Checked, cases};
use crate::harness::{Fixture, native};
use crate::kit::*;

pub(crate) fn cases() -> Vec<Case> {
    cases!("queue";
        Nothing:
            claimed_messages_are_leased_to_their_owner,
            what_is_done_or_dead_is_never_claimed_again,
            an_abandoned_message_comes_back_after_its_delay,
            what_others_hold_is_left_alone_and_reported,
            of_a_large_batch_exactly_the_claims_that_are_held_change,
            of_done_claims_exactly_those_that_are_held_change,
            an_owner_that_claims_again_is_fenced_by_its_token,
            the_owner_that_ended_a_message_is_on_record,
            claims_tell_the_last_error,
            a_claim_can_be_extended,
            every_counted_attempt_is_on_record,
            topics_are_as_long_in_any_script,
            a_message_that_dies_untried_has_no_attempt,
            an_attempt_can_be_taken_back,
            expired_claims_are_reaped,
            reaping_leaves_the_rest_alone;
        Transactions:
            a_message_is_settled_in_a_transaction,
            a_rolled_back_settle_leaves_the_claim,
            a_settle_in_a_transaction_is_fenced;
    )
}

async fn enqueued(t: &Fixture, ids: &[&str]) -> Result<(), StoreError> {
    t.write(ids.iter().map(|id| in_queue(event(id))).collect(), at(0)).await?;
    Ok(())
}

async fn claimed(t: &Fixture, by: &str, now: i64) -> Result<Vec<Row>, StoreError> {
    t.claim(ClaimFrom::Queue, by, MANY, at(now)).await
}

/// Settles by an owner; the places that changed nothing.
async fn settle(t: &Fixture, by: &str, outcomes: Vec<Outcome>, now: i64) -> Result<Vec<usize>, StoreError> {
    let settled = t.settle(Fence::Owner(owner(by)), outcomes, at(now)).await?;
    assert!(settled.held, "an owner is never told to be gone");
    Ok(settled.stale)
}

/// The first attempt has failed.
fn abandon(delay: u64) -> Change {
    retry(secs(delay))
}

fn fail() -> Change {
    fail_at(1)
}

fn fail_at(attempt: u32) -> Change {
    Change::Dead { error: "never".to_owned(), counts: Counts::Made(attempt), blocks: None }
}

fn reap(older_than: Duration, rows: usize, now: i64) -> Reap {
    Reap { older_than, rows, now: Some(at(now)) }
}

/// OBX-016, OBX-017, OBX-019, OBX-020, OBX-021, OBX-022, OBX-023, OBX-026, OBX-101
async fn claimed_messages_are_leased_to_their_owner(t: Fixture) -> Checked {
    enqueued(&t, &["a", "b", "c"]).await?;
    let fresh = t.record("a").await?;
    assert_eq!((fresh.attempts, fresh.status, fresh.done_at), (0, Status::New, None));
    assert_eq!(ids(&t.claim(ClaimFrom::Queue, "ann", 2, at(1)).await?), ["a", "b"]);
    let record = t.record("a").await?;
    assert_eq!((record.locked_by.as_deref(), record.locked_until), (Some("ann"), Some(at(31))));
    assert_eq!(ids(&native(&t.beside).claim(claim(ClaimFrom::Queue, "bob", 9, at(2))).await?), ["c"]);
    assert!(claimed(&t, "carl", 2).await?.is_empty(), "nothing is ready, and that is no error");
    Ok(())
}

/// OBX-024, OBX-025, OBX-027, OBX-028, OBX-032, OBX-042, OBX-043, OBX-048
async fn what_is_done_or_dead_is_never_claimed_again(t: Fixture) -> Checked {
    enqueued(&t, &["a", "b"]).await?;
    let rows = claimed(&t, "ann", 0).await?;
    let outcomes = vec![outcome(&rows[0], Change::Done), outcome(&rows[1], fail())];
    assert_eq!(settle(&t, "ann", outcomes, 3).await?, NONE);
    let (done, dead) = (t.record("a").await?, t.record("b").await?);
    assert_eq!((done.status, done.done_at, done.locked_by), (Status::Done, Some(at(3)), None));
    assert_eq!((dead.status, dead.done_at), (Status::Dead, Some(at(3))));
    assert_eq!(dead.last_error.as_deref(), Some("never"));
    assert!(claimed(&t, "bob", 99_999).await?.is_empty());
    Ok(())
}

/// OBX-035, OBX-036, OBX-037, OBX-040, OBX-041
async fn an_abandoned_message_comes_back_after_its_delay(t: Fixture) -> Checked {
    enqueued(&t, &["a"]).await?;
    let row = claimed(&t, "ann", 0).await?.remove(0);
    assert_eq!(settle(&t, "ann", vec![outcome(&row, abandon(4))], 1).await?, NONE);
    let record = t.record("a").await?;
    assert_eq!((record.locked_by, record.locked_until, record.attempts), (None, None, 1));
    assert_eq!((record.available_at, record.last_error.as_deref()), (at(5), Some("no")));
    assert!(claimed(&t, "bob", 4).await?.is_empty());
    assert_eq!(claimed(&t, "bob", 5).await?[0].attempts, 2, "one retry so far, and the claim's own");
    Ok(())
}

/// OBX-030, OBX-031, OBX-038, OBX-039, OBX-044, OBX-045
async fn what_others_hold_is_left_alone_and_reported(t: Fixture) -> Checked {
    enqueued(&t, &["mine", "theirs"]).await?;
    let mine = t.claim(ClaimFrom::Queue, "ann", 1, at(0)).await?.remove(0);
    let theirs = claimed(&t, "bob", 0).await?.remove(0);
    let mut gone = mine.clone();
    gone.seq.0 += 1_000;
    let (extend, release) = (Change::Extend { lease: secs(9) }, Change::Release { attempts: 0 });
    for change in [Change::Done, abandon(1), fail(), extend, release] {
        let before = t.record("theirs").await?;
        let outcomes = vec![outcome(&gone, change.clone()), outcome(&theirs, change.clone())];
        assert_eq!(settle(&t, "ann", outcomes, 1).await?, [0, 1], "{change:?}");
        let after = t.record("theirs").await?;
        assert_eq!((after.status, after.locked_until), (before.status, before.locked_until), "{change:?}");
    }
    let mixed = vec![outcome(&theirs, Change::Done), outcome(&mine, Change::Done)];
    assert_eq!(settle(&t, "ann", mixed, 2).await?, [0], "the rest is done");
    assert_eq!(t.record("mine").await?.status, Status::Done);
    Ok(())
}

/// PBX-011, OBX-030, OBX-031: batches of nothing but done messages, which a store may compare as a whole. In all but the
/// first, one outcome has another token, another id, or the number of a row that is not there.
async fn of_done_claims_exactly_those_that_are_held_change(t: Fixture) -> Checked {
    type Spoil = fn(&mut [Outcome]);
    let spoils: [(Spoil, &[usize]); 4] = [
        (|_| (), &[]),
        (|outcomes| outcomes[1].token.0 += 1, &[1]),
        (|outcomes| outcomes[1].id = id("another"), &[1]),
        (|outcomes| outcomes[2].seq.0 += 1_000_000, &[2]),
    ];
    for (round, on_done) in [OnDone::Keep, OnDone::Delete].into_iter().enumerate() {
        for (number, (spoil, stale)) in spoils.iter().enumerate() {
            let name = format!("{round}{number}");
            let names = ["a", "b", "c"].map(|last| format!("{name}-{last}"));
            enqueued(&t, &names.each_ref().map(String::as_str)).await?;
            let rows = claimed(&t, "ann", 0).await?;
            assert_eq!(ids(&rows), names);
            let done: Vec<Outcome> = rows.iter().map(|row| outcome(row, Change::Done)).collect();
            let mut spoiled = done.clone();
            spoil(&mut spoiled);
            assert_eq!(done_by_ann(&t, spoiled, on_done).await?, *stale, "{name}");
            for (place, row) in rows.iter().enumerate() {
                let found = t.store.admin().show(row.id.clone()).await?.map(|shown| shown.record.status);
                let expected = match on_done {
                    _ if stale.contains(&place) => Some(Status::New),
                    OnDone::Delete => None,
                    OnDone::Keep => Some(Status::Done),
                };
                assert_eq!(found, expected, "{name}: {place}");
            }
            // The next round begins without claims.
            done_by_ann(&t, done, on_done).await?;
        }
    }
    Ok(())
}

async fn done_by_ann(t: &Fixture, done: Vec<Outcome>, on_done: OnDone) -> Result<Vec<usize>, StoreError> {
    let (fence, outcomes) = (Fence::Owner(owner("ann")), done.into());
    let settled =
        t.store.settle(Settle { fence, outcomes, on_done, repeats: None, now: Some(at(1)) }).await?;
    assert_eq!((settled.held, &*settled.busy), (true, &NONE[..]));
    Ok(settled.stale)
}

/// PBX-011, OBX-030, OBX-031: outcomes of all kinds in one batch, among them one with another token, one with another id
/// and one of a row that is not there.
async fn of_a_large_batch_exactly_the_claims_that_are_held_change(t: Fixture) -> Checked {
    const MESSAGES: usize = 130;
    for (prefix, on_done) in [("keep", OnDone::Keep), ("delete", OnDone::Delete)] {
        let names: Vec<String> = (0..MESSAGES).map(|number| format!("{prefix}{number:03}")).collect();
        enqueued(&t, &names.iter().map(String::as_str).collect::<Vec<_>>()).await?;
        let rows = t.claim(ClaimFrom::Queue, "ann", MESSAGES, at(0)).await?;
        assert_eq!(ids(&rows), names);
        let change = |place: usize| match place % 10 {
            1 => Change::Extend { lease: secs(900) },
            2 => abandon(60),
            _ => Change::Done,
        };
        let mut outcomes: Vec<Outcome> =
            rows.iter().enumerate().map(|(place, row)| outcome(row, change(place))).collect();
        let stale = [3, 5, 7, 11, 12];
        outcomes[3].token.0 += 1;
        outcomes[5].id = id("another");
        outcomes[7].seq.0 += 1_000_000;
        outcomes[11].token.0 += 1;
        outcomes[12].token.0 += 1;
        let fence = Fence::Owner(owner("ann"));
        let request = Settle { fence, outcomes: outcomes.into(), on_done, repeats: None, now: Some(at(1)) };
        let settled = t.store.settle(request).await?;
        assert_eq!(
            (settled.held, &*settled.stale, &*settled.busy),
            (true, &stale[..], &NONE[..]),
            "{prefix}"
        );
        for (place, name) in names.iter().enumerate() {
            let found = t.store.admin().show(id(name)).await?.map(|shown| {
                let record = shown.record;
                (record.status, record.locked_by, record.locked_until)
            });
            let ann = Some("ann".to_owned());
            let expected = match change(place) {
                _ if stale.contains(&place) => Some((Status::New, ann, Some(at(30)))),
                Change::Extend { .. } => Some((Status::New, ann, Some(at(901)))),
                Change::Retry { .. } => Some((Status::Retry, None, None)),
                _ if on_done == OnDone::Delete => None,
                _ => Some((Status::Done, None, None)),
            };
            assert_eq!(found, expected, "{name}");
        }
    }
    Ok(())
}

/// OBX-100, PBX-011: a zombie with the same owner id changes nothing.
async fn an_owner_that_claims_again_is_fenced_by_its_token(t: Fixture) -> Checked {
    enqueued(&t, &["a"]).await?;
    let first = claimed(&t, "ann", 0).await?.remove(0);
    let second = claimed(&t, "ann", 40).await?.remove(0);
    assert_eq!((first.token, second.token), (Token(1), Token(2)));
    assert_eq!(settle(&t, "ann", vec![outcome(&first, Change::Done)], 41).await?, [0]);
    assert_eq!(settle(&t, "ann", vec![outcome(&second, Change::Done)], 41).await?, NONE);
    Ok(())
}

/// OBX-029
async fn the_owner_that_ended_a_message_is_on_record(t: Fixture) -> Checked {
    enqueued(&t, &["done", "dead", "open"]).await?;
    let rows = claimed(&t, "ann", 0).await?;
    let outcomes = vec![outcome(&rows[0], Change::Done), outcome(&rows[1], fail())];
    assert_eq!(settle(&t, "ann", outcomes, 1).await?, NONE);
    t.apply("open", Change::Done, at(1)).await?;
    for (id, by) in [("done", Some("ann")), ("dead", Some("ann")), ("open", None)] {
        assert_eq!(t.record(id).await?.processed_by.as_deref(), by, "{id}");
    }
    assert_eq!(t.replay(only(&["dead"]), at(2)).await?, 1);
    assert_eq!(t.record("dead").await?.processed_by, None, "nobody has ended it yet");
    Ok(())
}

/// OBX-202
async fn claims_tell_the_last_error(t: Fixture) -> Checked {
    enqueued(&t, &["a"]).await?;
    let row = claimed(&t, "ann", 0).await?.remove(0);
    assert_eq!(row.last_error, None);
    settle(&t, "ann", vec![outcome(&row, abandon(0))], 1).await?;
    assert_eq!(claimed(&t, "ann", 2).await?[0].last_error.as_deref(), Some("no"));
    Ok(())
}

/// OBX-019, OBX-020
async fn a_claim_can_be_extended(t: Fixture) -> Checked {
    enqueued(&t, &["a", "free"]).await?;
    let row = t.claim(ClaimFrom::Queue, "ann", 1, at(0)).await?.remove(0);
    let extend = Change::Extend { lease: secs(60) };
    assert_eq!(settle(&t, "ann", vec![outcome(&row, extend.clone())], 20).await?, NONE);
    let record = t.record("a").await?;
    assert_eq!((record.locked_by.as_deref(), record.locked_until), (Some("ann"), Some(at(80))));
    assert_eq!((record.token, record.attempts, record.status), (Token(1), 1, Status::New));
    assert_eq!(ids(&claimed(&t, "bob", 79).await?), ["free"]);
    t.write(vec![in_queue(event("unclaimed"))], at(79)).await?;
    assert!(!t.try_apply("unclaimed", extend.clone(), at(79)).await?, "nobody holds it");
    assert_eq!(t.record("unclaimed").await?.locked_until, None);
    // A claim that has run out is the owner's until someone else takes it.
    assert_eq!(settle(&t, "ann", vec![outcome(&row, extend)], 90).await?, NONE);
    assert_eq!(t.record("a").await?.locked_until, Some(at(150)));
    Ok(())
}

/// OBX-007, OBX-009
async fn topics_are_as_long_in_any_script(t: Fixture) -> Checked {
    let longest = "é".repeat(255);
    let written = Event::text(longest.as_str(), "{}").id("a").correlation_id(longest.as_str());
    t.write(vec![in_queue(written)], at(0)).await?;
    let topics = std::sync::Arc::from([longest.clone()]);
    let rows = t.native().claim(Claim { topics, ..claim(ClaimFrom::Queue, "ann", MANY, at(1)) }).await?;
    let event = rows[0].event.as_ref().expect("readable");
    assert_eq!((event.event_type(), event.correlation_id()), (&*longest, Some(&*longest)));
    Ok(())
}

/// PBX-170
async fn every_counted_attempt_is_on_record(t: Fixture) -> Checked {
    enqueued(&t, &["twice", "at once"]).await?;
    let rows = claimed(&t, "ann", 0).await?;
    let outcomes = vec![outcome(&rows[0], abandon(4)), outcome(&rows[1], fail())];
    assert_eq!(settle(&t, "ann", outcomes, 1).await?, NONE);
    let again = claimed(&t, "bob", 5).await?.remove(0);
    assert_eq!(settle(&t, "bob", vec![outcome(&again, fail_at(2))], 6).await?, NONE);
    for (message, expected) in [
        ("twice", &[(1, at(1), "ann", "no"), (2, at(6), "bob", "never")][..]),
        ("at once", &[(1, at(1), "ann", "never")][..]),
    ] {
        let shown = t.store.admin().show(id(message)).await?.expect("it is there");
        let attempts = shown.attempts.iter();
        let told: Vec<_> =
            attempts.map(|one| (one.number, one.at, one.by.as_str(), one.error.as_str())).collect();
        assert_eq!(told, expected, "{message}");
        assert_eq!(shown.record.attempts as usize, expected.len(), "{message}");
    }
    Ok(())
}

/// PBX-170: an attempt that the claim counted and nobody made is taken back.
async fn a_message_that_dies_untried_has_no_attempt(t: Fixture) -> Checked {
    enqueued(&t, &["a"]).await?;
    let row = claimed(&t, "ann", 0).await?.remove(0);
    let expired = Change::Dead { error: "expired".to_owned(), counts: Counts::NotMade(0), blocks: None };
    assert_eq!(settle(&t, "ann", vec![outcome(&row, expired)], 1).await?, NONE);
    let shown = t.store.admin().show(id("a")).await?.expect("it is there");
    assert_eq!((shown.record.status, shown.record.attempts), (Status::Dead, 0));
    assert_eq!((shown.record.last_error.as_deref(), shown.attempts.len()), (Some("expired"), 0));
    Ok(())
}

/// OBX-055: a message that nobody could take has not failed.
async fn an_attempt_can_be_taken_back(t: Fixture) -> Checked {
    enqueued(&t, &["a"]).await?;
    for round in 0..3 {
        let row = claimed(&t, "ann", round * 10).await?.remove(0);
        assert_eq!(row.attempts, 1, "round {round}");
        let back = Change::Retry {
            delay: secs(5),
            error: "nobody is there".to_owned(),
            counts: Counts::NotMade(0),
            wait: Wait::InPlace,
        };
        assert_eq!(settle(&t, "ann", vec![outcome(&row, back)], round * 10).await?, NONE);
    }
    let shown = t.store.admin().show(id("a")).await?.expect("it is there");
    assert_eq!((shown.record.attempts, shown.attempts.len()), (0, 0));
    assert_eq!((shown.record.status, shown.record.available_at), (Status::Retry, at(25)));
    Ok(())
}

/// OBX-049, OBX-050, OBX-051
async fn expired_claims_are_reaped(t: Fixture) -> Checked {
    enqueued(&t, &["a", "b", "c"]).await?;
    assert_eq!(claimed(&t, "ann", 0).await?.len(), 3);
    assert_eq!(t.native().reap(reap(Duration::ZERO, MANY, 29)).await?, 0, "they are held");
    assert_eq!(t.native().reap(reap(secs(10), MANY, 39)).await?, 0, "not over for so long");
    assert_eq!(t.native().reap(reap(Duration::ZERO, 2, 30)).await?, 2);
    assert_eq!(t.native().reap(reap(Duration::ZERO, MANY, 30)).await?, 1);
    let record = t.record("a").await?;
    assert_eq!((record.locked_by, record.locked_until, record.attempts), (None, None, 1));
    assert_eq!(ids(&claimed(&t, "bob", 30).await?), ["a", "b", "c"]);
    Ok(())
}

/// OBX-052
async fn reaping_leaves_the_rest_alone(t: Fixture) -> Checked {
    enqueued(&t, &["done", "dead", "free", "held"]).await?;
    let rows = t.claim(ClaimFrom::Queue, "ann", 2, at(0)).await?;
    let outcomes = vec![outcome(&rows[0], Change::Done), outcome(&rows[1], fail())];
    settle(&t, "ann", outcomes, 1).await?;
    let held = t.write(vec![in_queue(event("later").due(at(40)))], at(0)).await?;
    assert_eq!(held.len(), 1);
    let free = t.record("free").await?;
    assert_eq!(t.native().reap(reap(Duration::ZERO, MANY, 99)).await?, 0);
    assert_eq!(t.record("free").await?.available_at, free.available_at);
    assert_eq!(
        (t.record("done").await?.status, t.record("dead").await?.status),
        (Status::Done, Status::Dead)
    );
    Ok(())
}

fn in_transaction(row: &Row, by: &str) -> Settle {
    let outcomes = vec![outcome(row, Change::Done)].into();
    Settle {
        fence: Fence::Owner(owner(by)),
        outcomes,
        on_done: OnDone::Keep,
        repeats: None,
        now: Some(at(2)),
    }
}

/// PBX-025, OBX-003
async fn a_message_is_settled_in_a_transaction(t: Fixture) -> Checked {
    enqueued(&t, &["a"]).await?;
    let row = claimed(&t, "ann", 0).await?.remove(0);
    let worked = t.work_with(|work| work.settle = Some(in_transaction(&row, "ann"))).await?;
    assert_eq!(worked.settled.map(|settled| settled.stale), Some(vec![]));
    let record = t.record("a").await?;
    assert_eq!((record.status, record.processed_by.as_deref()), (Status::Done, Some("ann")));
    assert_eq!(settle(&t, "ann", vec![outcome(&row, Change::Done)], 3).await?, [0], "it is done already");
    Ok(())
}

/// PBX-025
async fn a_rolled_back_settle_leaves_the_claim(t: Fixture) -> Checked {
    enqueued(&t, &["a"]).await?;
    let row = claimed(&t, "ann", 0).await?.remove(0);
    let rows = vec![in_slot(event("business"))];
    t.work_with(|work| {
        work.rows = rows;
        work.settle = Some(in_transaction(&row, "ann"));
        work.ending = crate::harness::Ending::Rollback;
    })
    .await?;
    assert!(t.find("business").await?.is_none());
    let record = t.record("a").await?;
    assert_eq!((record.status, record.locked_by.as_deref()), (Status::New, Some("ann")));
    assert_eq!(settle(&t, "ann", vec![outcome(&row, Change::Done)], 3).await?, NONE);
    Ok(())
}

/// PBX-025, OBX-030
async fn a_settle_in_a_transaction_is_fenced(t: Fixture) -> Checked {
    enqueued(&t, &["a"]).await?;
    let row = claimed(&t, "ann", 0).await?.remove(0);
    let again = claimed(&t, "bob", 40).await?.remove(0);
    let worked = t.work_with(|work| work.settle = Some(in_transaction(&row, "ann"))).await?;
    assert_eq!(worked.settled.map(|settled| settled.stale), Some(vec![0]));
    let record = t.record("a").await?;
    assert_eq!(
        (record.status, record.token, record.locked_by.as_deref()),
        (Status::New, again.token, Some("bob"))
    );
    Ok(())
}
