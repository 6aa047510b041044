//! Claiming: due rows, oldest first, held by one owner until the lease ends.

use std::sync::Arc;

use pillarbox::model::{Event, NewRow, Row, Status, Token};
use pillarbox::port::{Change, Claim, ClaimFrom, DueTopics, Fence, Reap, StoreError};

use crate::case::{Case, Checked, cases};
use crate::harness::{Fixture, native};
use crate::kit::*;

pub(crate) fn cases() -> Vec<Case> {
    cases!("claim"; Nothing:
        a_claim_locks_rows_to_its_owner_and_counts_the_attempt,
        claimed_rows_are_skipped_until_the_lease_ends,
        expired_lease_is_claimable_again,
        a_claim_that_ran_out_is_told_and_counts_no_second_attempt,
        what_was_settled_did_not_run_out,
        a_lease_of_zero_makes_a_claim_run_out,
        an_attempt_that_was_begun_stays_counted,
        an_owner_does_not_claim_its_own_rows_again,
        no_more_than_asked_for_is_locked,
        the_queue_is_claimed_by_time_and_number,
        events_are_claimed_by_number_from_every_lane_but_the_queue,
        only_the_topics_asked_for_are_claimed_by_time_and_number,
        topics_compare_by_their_bytes,
        topics_of_due_messages_are_told_but_those_excepted,
        rows_due_later_are_not_claimed,
        recent_rows_are_not_claimed,
        ended_rows_are_not_claimed,
        expired_events_are_claimed_like_others,
        tokens_only_grow,
        leases_are_counted_by_the_databases_clock,
    )
}

async fn events(t: &Fixture, by: &str, now: i64) -> Result<Vec<Row>, StoreError> {
    t.claim(ClaimFrom::Events, by, MANY, at(now)).await
}

/// EVT-047, EVT-085
async fn a_claim_locks_rows_to_its_owner_and_counts_the_attempt(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    let claimed = events(&t, "ann", 5).await?.remove(0);
    assert_eq!((claimed.token, claimed.attempts, claimed.status), (Token(1), 1, Status::New));
    assert_eq!(claimed.event.as_ref().map(Event::event_type), Ok("order-placed"));
    let record = t.record("a").await?;
    assert_eq!((record.locked_by.as_deref(), record.locked_until), (Some("ann"), Some(at(35))));
    assert_eq!((record.token, record.attempts, record.seq), (Token(1), 1, claimed.seq));
    Ok(())
}

/// EVT-047
async fn claimed_rows_are_skipped_until_the_lease_ends(t: Fixture) -> Checked {
    t.write(plain(&["a", "b"]), at(0)).await?;
    assert_eq!(ids(&t.claim(ClaimFrom::Events, "ann", 1, at(0)).await?), ["a"]);
    assert_eq!(ids(&events(&t, "bob", 0).await?), ["b"]);
    assert!(events(&t, "carl", 29).await?.is_empty());
    Ok(())
}

/// EVT-086
async fn expired_lease_is_claimable_again(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    events(&t, "ann", 0).await?;
    let again = events(&t, "bob", 30).await?;
    assert_eq!((ids(&again), again[0].token, again[0].lapsed), (vec!["a"], Token(2), true));
    assert_eq!(t.record("a").await?.locked_by.as_deref(), Some("bob"));
    Ok(())
}

/// PBX-070: whether it was reaped or not. Nobody knows whether the attempt was begun, so the two claims count as one.
async fn a_claim_that_ran_out_is_told_and_counts_no_second_attempt(t: Fixture) -> Checked {
    t.write(vec![in_queue(event("a")), in_queue(event("b"))], at(0)).await?;
    let told = |rows: &[Row]| rows.iter().map(|row| (row.lapsed, row.attempts)).collect::<Vec<_>>();
    let first = t.claim(ClaimFrom::Queue, "ann", MANY, at(0)).await?;
    assert_eq!(told(&first), [(false, 1), (false, 1)]);
    let again = t.claim(ClaimFrom::Queue, "bob", MANY, at(30)).await?;
    assert_eq!((ids(&again), told(&again)), (vec!["a", "b"], vec![(true, 1), (true, 1)]));
    let reaped = t.native().reap(Reap { older_than: secs(0), rows: 1, now: Some(at(60)) }).await?;
    assert_eq!((reaped, t.record("a").await?.locked_by), (1, None));
    let third = t.claim(ClaimFrom::Queue, "carl", MANY, at(60)).await?;
    assert_eq!((ids(&third), told(&third)), (vec!["a", "b"], vec![(true, 1), (true, 1)]));
    assert_eq!(t.record("a").await?.attempts, 1);
    Ok(())
}

/// PBX-070: a row that was given back, failed or replayed is like any other.
async fn what_was_settled_did_not_run_out(t: Fixture) -> Checked {
    let release = Change::Release { attempts: 0 };
    for (name, change, attempts) in [("a", release, 1), ("b", retry(secs(0)), 2), ("c", dead(), 1)] {
        t.write(vec![in_queue(event(name))], at(0)).await?;
        t.claim(ClaimFrom::Queue, "ann", MANY, at(0)).await?;
        let lapsed = t.claim(ClaimFrom::Queue, "bob", MANY, at(30)).await?.remove(0);
        assert!(lapsed.lapsed, "{name}");
        t.settle(Fence::Owner(owner("bob")), vec![outcome(&lapsed, change)], at(31)).await?;
        t.replay(only(&[name]), at(31)).await?;
        let again = t.claim(ClaimFrom::Queue, "carl", MANY, at(32)).await?.remove(0);
        assert_eq!((again.lapsed, again.attempts), (false, attempts), "{name}");
        t.settle(Fence::Owner(owner("carl")), vec![outcome(&again, Change::Done)], at(33)).await?;
    }
    Ok(())
}

/// PBX-070: it is free at once, and remembered as one that ran out.
async fn a_lease_of_zero_makes_a_claim_run_out(t: Fixture) -> Checked {
    t.write(vec![in_queue(event("a"))], at(0)).await?;
    t.claim(ClaimFrom::Queue, "ann", MANY, at(0)).await?;
    let lapsed = t.claim(ClaimFrom::Queue, "bob", MANY, at(30)).await?.remove(0);
    let change = Change::Extend { lease: secs(0) };
    t.settle(Fence::Owner(owner("bob")), vec![outcome(&lapsed, change)], at(31)).await?;
    let again = t.claim(ClaimFrom::Queue, "carl", MANY, at(31)).await?.remove(0);
    assert_eq!((again.lapsed, again.attempts), (true, 1));
    Ok(())
}

/// PBX-070
async fn an_attempt_that_was_begun_stays_counted(t: Fixture) -> Checked {
    t.write(vec![in_queue(event("a"))], at(0)).await?;
    t.claim(ClaimFrom::Queue, "ann", MANY, at(0)).await?;
    for (begun, by) in [(1, "bob"), (2, "carl"), (3, "dora")] {
        let now = at(i64::from(begun) * 30);
        let lapsed = t.claim(ClaimFrom::Queue, by, MANY, now).await?.remove(0);
        assert_eq!((lapsed.lapsed, lapsed.attempts), (true, begun));
        let attempt = Change::Attempt { attempts: begun + 1 };
        t.settle(Fence::Owner(owner(by)), vec![outcome(&lapsed, attempt)], now).await?;
        assert_eq!(t.record("a").await?.attempts, begun + 1);
    }
    Ok(())
}

/// EVT-047
async fn an_owner_does_not_claim_its_own_rows_again(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    assert_eq!(events(&t, "ann", 0).await?.len(), 1);
    assert!(events(&t, "ann", 1).await?.is_empty());
    Ok(())
}

/// EVT-047, PBX-013
async fn no_more_than_asked_for_is_locked(t: Fixture) -> Checked {
    t.write(plain(&["a", "b", "c"]), at(0)).await?;
    assert!(t.claim(ClaimFrom::Events, "ann", 0, at(0)).await?.is_empty());
    assert_eq!(ids(&t.claim(ClaimFrom::Events, "ann", 2, at(0)).await?), ["a", "b"]);
    let left = t.record("c").await?;
    assert_eq!((left.locked_by, left.attempts, left.token), (None, 0, Token(0)));
    Ok(())
}

/// EVT-047
async fn the_queue_is_claimed_by_time_and_number(t: Fixture) -> Checked {
    t.write(vec![in_queue(event("late").due(at(9))), in_slot(event("event"))], at(0)).await?;
    t.write(vec![in_queue(event("b").due(at(5))), in_queue(event("c").due(at(5)))], at(0)).await?;
    t.write(vec![in_queue(event("first").due(at(3)))], at(0)).await?;
    let claimed = t.claim(ClaimFrom::Queue, "ann", 4, at(20)).await?;
    assert_eq!(ids(&claimed), ["first", "b", "c", "late"]);
    assert!(t.claim(ClaimFrom::Queue, "ann", 4, at(20)).await?.is_empty(), "events are not in the queue");
    Ok(())
}

fn topic(id: &str, topic: &str, due: i64) -> NewRow {
    in_queue(Event::text(topic, "{}").id(id).due(at(due)))
}

fn topics(names: &[&str]) -> Arc<[String]> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

async fn of_topics(t: &Fixture, names: &[&str], rows: usize, now: i64) -> Result<Vec<Row>, StoreError> {
    let request = claim(ClaimFrom::Queue, "ann", rows, at(now));
    t.native().claim(Claim { topics: topics(names), ..request }).await
}

/// PBX-071
async fn only_the_topics_asked_for_are_claimed_by_time_and_number(t: Fixture) -> Checked {
    let rows = [("a", "mail", 5), ("b", "fax", 3), ("c", "mail", 1), ("d", "telex", 2), ("e", "fax", 5)];
    t.write(rows.iter().map(|(id, name, due)| topic(id, name, *due)).collect(), at(0)).await?;
    assert_eq!(ids(&of_topics(&t, &["mail", "fax", "mail"], 3, 9).await?), ["c", "b", "a"]);
    assert!(of_topics(&t, &["post"], MANY, 9).await?.is_empty());
    assert!(of_topics(&t, &["fax"], 0, 9).await?.is_empty());
    assert_eq!(ids(&of_topics(&t, &["mail", "fax"], MANY, 9).await?), ["e"], "the others are claimed");
    let left = t.record("d").await?;
    assert_eq!((left.token, left.attempts, left.locked_by), (Token(0), 0, None), "nobody touched it");
    let lapsed = of_topics(&t, &["mail", "fax"], MANY, 60).await?;
    assert_eq!(ids(&lapsed), ["c", "b", "a", "e"]);
    assert!(lapsed.iter().all(|row| row.lapsed && row.attempts == 1));
    assert_eq!(ids(&of_topics(&t, &[], MANY, 60).await?), ["d"], "none named: every topic");
    Ok(())
}

/// PBX-071
async fn topics_compare_by_their_bytes(t: Fixture) -> Checked {
    t.write(vec![topic("a", "Mail", 1), topic("b", "mail ", 1), topic("c", "mail", 1)], at(0)).await?;
    assert_eq!(ids(&of_topics(&t, &["mail"], MANY, 9).await?), ["c"]);
    Ok(())
}

/// OBX-055, PBX-071
async fn topics_of_due_messages_are_told_but_those_excepted(t: Fixture) -> Checked {
    let rows =
        vec![topic("a", "mail", 1), topic("b", "fax", 1), topic("c", "fax", 2), topic("d", "later", 99)];
    t.write(rows, at(0)).await?;
    t.write(vec![topic("e", "held", 1), topic("f", "done", 1), in_slot(event("event"))], at(0)).await?;
    of_topics(&t, &["held"], 1, 5).await?;
    t.apply("f", Change::Done, at(5)).await?;
    let due = |except: &[&str], limit, now| {
        t.native().due_topics(DueTopics { except: topics(except), limit, now: Some(at(now)) })
    };
    assert_eq!(due(&["mail"], 9, 9).await?, ["fax"]);
    let mut all = due(&[], 9, 9).await?;
    all.sort();
    assert_eq!(all, ["fax", "mail"]);
    assert_eq!(due(&[], 1, 9).await?.len(), 1);
    assert!(due(&["mail", "fax"], 9, 9).await?.is_empty());
    let mut much_later = due(&["mail", "fax"], 9, 99).await?;
    much_later.sort();
    assert_eq!(much_later, ["held", "later"], "its claim ran out, its time has come");
    Ok(())
}

/// EVT-047
async fn events_are_claimed_by_number_from_every_lane_but_the_queue(t: Fixture) -> Checked {
    let rows = vec![
        in_slot(event("delayed").due(at(5))),
        in_lane(event("lane"), 64),
        in_queue(event("queued")),
        in_slot(event("grouped").group("g")),
    ];
    t.write(rows, at(0)).await?;
    assert_eq!(ids(&events(&t, "ann", 5).await?), ["delayed", "lane", "grouped"]);
    Ok(())
}

/// EVT-046, EVT-047, PBX-014
async fn rows_due_later_are_not_claimed(t: Fixture) -> Checked {
    t.write(vec![in_queue(event("queued").due(at(10))), in_slot(event("a"))], at(0)).await?;
    t.apply("a", retry(secs(10)), at(0)).await?;
    assert!(events(&t, "ann", 9).await?.is_empty());
    assert!(t.claim(ClaimFrom::Queue, "ann", 9, at(9)).await?.is_empty());
    assert_eq!(ids(&events(&t, "ann", 10).await?), ["a"]);
    assert_eq!(ids(&t.claim(ClaimFrom::Queue, "ann", 9, at(10)).await?), ["queued"]);
    Ok(())
}

/// EVT-046, EVT-047
async fn recent_rows_are_not_claimed(t: Fixture) -> Checked {
    for (old, recent, from) in [
        (in_slot(event("a")), in_slot(event("b")), ClaimFrom::Events),
        (in_queue(event("c")), in_queue(event("d")), ClaimFrom::Queue),
    ] {
        t.write(vec![recent], at(8)).await?;
        t.write(vec![old.clone()], at(0)).await?;
        let request = Claim { skip_recent: secs(5), ..claim(from, "ann", MANY, at(9)) };
        assert_eq!(ids(&t.native().claim(request).await?), [old.event.id().as_str()]);
    }
    Ok(())
}

/// EVT-046
async fn ended_rows_are_not_claimed(t: Fixture) -> Checked {
    t.write(plain(&["a", "b"]), at(0)).await?;
    t.write(vec![in_queue(event("c"))], at(0)).await?;
    t.apply("a", Change::Done, at(0)).await?;
    t.apply("b", dead(), at(0)).await?;
    t.apply("c", Change::Done, at(0)).await?;
    assert!(events(&t, "ann", 99).await?.is_empty());
    assert!(t.claim(ClaimFrom::Queue, "ann", 9, at(99)).await?.is_empty());
    Ok(())
}

/// PBX-019
async fn expired_events_are_claimed_like_others(t: Fixture) -> Checked {
    t.write(vec![in_queue(event("a").expires(at(5)))], at(0)).await?;
    let claimed = t.claim(ClaimFrom::Queue, "ann", 9, at(9)).await?;
    assert_eq!(claimed[0].expires_at, Some(at(5)), "the caller ends it");
    Ok(())
}

/// EVT-086, PBX-011
async fn tokens_only_grow(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    let first = events(&t, "ann", 0).await?.remove(0);
    let release = vec![outcome(&first, Change::Release { attempts: 0 })];
    t.settle(Fence::Owner(owner("ann")), release, at(1)).await?;
    let second = events(&t, "ann", 2).await?.remove(0);
    let failed = vec![outcome(&second, dead())];
    t.settle(Fence::Owner(owner("ann")), failed, at(3)).await?;
    assert_eq!(t.replay(only(&["a"]), at(4)).await?, 1);
    let third = events(&t, "ann", 5).await?.remove(0);
    assert_eq!([first.token, second.token, third.token], [Token(1), Token(2), Token(3)]);
    Ok(())
}

/// PBX-014
async fn leases_are_counted_by_the_databases_clock(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    let request = Claim { now: None, ..claim(ClaimFrom::Events, "ann", 1, at(0)) };
    let claimed = t.native().claim(request.clone()).await?;
    assert_eq!(claimed.len(), 1);
    let scope = pillarbox::port::Scope::Due;
    let now = t.native().fetch(pillarbox::port::Fetch { now: None, ..fetch(scope, at(0)) }).await?.now;
    let until = t.record("a").await?.locked_until.expect("locked");
    assert!(until > now && until <= now + LEASE, "{until} is not within a lease of {now}");
    assert!(native(&t.beside).claim(Claim { owner: owner("bob"), ..request }).await?.is_empty());
    Ok(())
}
