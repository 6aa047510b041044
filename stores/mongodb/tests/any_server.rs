//! On every kind of server: numbers, settles of what is done, and documents of others.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pillarbox::Event;
use pillarbox::model::{NewRow, NodeId, Placement, Seq, Token, Written};
use pillarbox::port::{
    Admin, ByteLimits, Change, Cursor, Fence, ItemStore, OnDone, Order, Outcome, Purge, PurgeStatus,
    ReadScope, Register, Select, Settle, Store, Table, Take,
};
use pillarbox_mongodb::MongodbStore;
use pillarbox_mongodb::mongodb::bson::{Bson, DateTime, Document, doc};
use tokio::task::JoinSet;

mod server;

use server::{Site, claim, read_from, rows};

/// PBX-010: writers of one process that draw at the same time get numbers of their own, and readers wait for none of them
/// once all are in.
#[tokio::test]
async fn writers_at_the_same_time_have_numbers_of_their_own() {
    for site in Site::each().await {
        let mut writing = JoinSet::new();
        for name in 0..40 {
            let store = site.store.clone();
            let names = (0..=name % 3).map(move |part| format!("{name}/{part}"));
            writing.spawn(async move { store.write(rows(names)).await.unwrap() });
        }
        let written: Vec<Seq> = writing.join_all().await.into_iter().flatten().map(|row| row.seq).collect();
        let numbers: BTreeSet<Seq> = written.iter().copied().collect();
        assert_eq!(numbers.len(), written.len(), "each its own");
        assert_eq!(numbers.last(), Some(&Seq(written.len() as i64)), "and none left out");
        let fetched = site.store.fetch(read_from(Cursor::default())).await.unwrap();
        assert_eq!((fetched.rows.len(), fetched.cursor.decided), (written.len(), *numbers.last().unwrap()));
        let beside = MongodbStore::new(site.database.clone()).await.unwrap();
        site.store.close().await;
        let fetched = beside.fetch(read_from(Cursor::default())).await.unwrap();
        assert_eq!(fetched.cursor.decided, *numbers.last().unwrap(), "another process knows it too");
        beside.close().await;
        site.remove().await;
    }
}

/// EVT-043: of done rows those with a message id stay, and what was not there or has another number by now is told.
#[tokio::test]
async fn a_batch_of_done_rows_tells_which_were_not_its_own() {
    for site in Site::each().await {
        let mut written = rows((0..250).map(|number| format!("row {number:03}")));
        let remembered = Event::text("order-placed", "{}").id("remembered").message_id("m").build().unwrap();
        written.rows.push(NewRow { event: remembered, placement: Placement::Slot });
        let written = site.store.write(written).await.unwrap();
        let events = site.database.collection::<Document>("outbox_event");
        events.delete_one(doc! { "_id": "row 007" }).await.unwrap();
        events.update_one(doc! { "_id": "row 120" }, doc! { "$set": { "seq": 900_i64 } }).await.unwrap();
        events.update_one(doc! { "_id": "row 200" }, doc! { "$set": { "status": 3 } }).await.unwrap();
        let outcome = |row: &Written| Outcome {
            seq: row.seq,
            id: row.id.clone(),
            token: Token::default(),
            change: Change::Done,
        };
        let outcomes: Vec<Outcome> = written.iter().map(outcome).collect();
        let settle = Settle {
            fence: Fence::Open,
            outcomes: outcomes.into(),
            on_done: OnDone::Delete,
            repeats: None,
            now: None,
        };
        let settled = site.store.settle(settle).await.unwrap();
        assert_eq!((settled.held, settled.stale), (true, vec![7, 120, 200]));
        let mut left = Vec::new();
        let mut cursor = events.find(doc! {}).sort(doc! { "_id": 1 }).await.unwrap();
        while cursor.advance().await.unwrap() {
            let row = cursor.deserialize_current().unwrap();
            left.push((row.get_str("_id").unwrap().to_owned(), row.get_i32("status").unwrap()));
        }
        let expected = [("remembered", 1), ("row 120", 0), ("row 200", 3)];
        assert_eq!(left, expected.map(|(id, status)| (id.to_owned(), status)));
        site.remove().await;
    }
}

/// EVT-043, RLY-013
#[tokio::test]
async fn only_the_owner_of_a_claim_settles_it_and_only_with_its_token() {
    for site in Site::each().await {
        site.store.write(rows(["a".to_owned(), "b".to_owned()])).await.unwrap();
        let mine = claim("ann", 2);
        let owner = mine.owner.clone();
        let claimed = site.store.claim(mine).await.unwrap();
        let settle = |fence: Fence, token: Token| Settle {
            fence,
            outcomes: claimed
                .iter()
                .map(|row| Outcome { seq: row.seq, id: row.id.clone(), token, change: Change::Done })
                .collect::<Vec<_>>()
                .into(),
            on_done: OnDone::Delete,
            repeats: None,
            now: None,
        };
        let ben = claim("ben", 1).owner;
        for (fence, token) in [(Fence::Owner(ben), claimed[0].token), (Fence::Owner(owner.clone()), Token(7))]
        {
            assert_eq!(site.store.settle(settle(fence, token)).await.unwrap().stale, [0, 1]);
        }
        let settled = site.store.settle(settle(Fence::Owner(owner), claimed[0].token)).await.unwrap();
        assert!(settled.stale.is_empty());
        assert_eq!(site.store.count(Select::default()).await.unwrap(), 0);
        site.remove().await;
    }
}

/// PBX-010: a row whose number was drawn before those that are read already is not passed by.
#[tokio::test]
async fn the_cursor_does_not_pass_a_draw_whose_row_may_still_come() {
    for site in Site::each().await {
        site.store.write(rows(["before".to_owned()])).await.unwrap();
        let meta = site.database.collection::<Document>("outbox_meta");
        let later = DateTime::from_millis(DateTime::now().timestamp_millis() + 60_000);
        // As a writer does that has drawn its number and not yet written its row; it can't be held there from outside.
        let draw = doc! { "id": "stalled", "first": 2_i64, "until": later };
        let drawn = doc! { "$inc": { "value": 1_i64 }, "$push": { "open": draw } };
        meta.update_one(doc! { "_id": "number" }, drawn).await.unwrap();
        site.store.write(rows(["after".to_owned()])).await.unwrap();
        let first = site.store.fetch(read_from(Cursor::default())).await.unwrap();
        assert_eq!(first.rows.iter().map(|row| row.seq.0).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(first.cursor.decided, Seq(1));
        let events = site.database.collection::<Document>("outbox_event");
        let mut late = events.find_one(doc! { "_id": "after" }).await.unwrap().unwrap();
        late.extend(doc! { "_id": "late", "seq": 2_i64 });
        events.insert_one(late).await.unwrap();
        let struck = doc! { "$pull": { "open": { "id": "stalled" } } };
        meta.update_one(doc! { "_id": "number" }, struck).await.unwrap();
        let second = site.store.fetch(read_from(first.cursor)).await.unwrap();
        assert_eq!(second.rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["late", "after"]);
        assert_eq!(second.cursor.decided, Seq(3));
        site.remove().await;
    }
}

/// PBX-010: a writer that died after its draw holds readers up for a bounded time.
#[tokio::test]
async fn a_draw_that_has_run_out_holds_nobody_up() {
    for site in Site::each().await {
        let meta = site.database.collection::<Document>("outbox_meta");
        let past = DateTime::from_millis(DateTime::now().timestamp_millis() - 60_000);
        let draw = doc! { "id": "dead", "first": 1_i64, "until": past };
        let drawn = doc! { "$inc": { "value": 1_i64 }, "$push": { "open": draw } };
        meta.update_one(doc! { "_id": "number" }, drawn).await.unwrap();
        let fetched = site.store.fetch(read_from(Cursor::default())).await.unwrap();
        assert_eq!(fetched.cursor.decided, Seq(1));
        site.store.write(rows(["after".to_owned()])).await.unwrap();
        let fetched = site.store.fetch(read_from(Cursor::default())).await.unwrap();
        assert_eq!((fetched.rows.len(), fetched.cursor.decided), (1, Seq(2)));
        site.store.close().await;
        let counter = meta.find_one(doc! { "_id": "number" }).await.unwrap().unwrap();
        assert!(
            counter.get_array("open").unwrap().is_empty(),
            "the next draw has removed it, and its own went with its end"
        );
        site.remove().await;
    }
}

/// EVT-040: whatever a plain writer leaves out or writes as a date is made whole, once, in the order it was written.
#[tokio::test]
async fn documents_of_others_get_a_number_and_their_slot() {
    for site in Site::each().await {
        let events = site.database.collection::<Document>("outbox_event");
        for name in ["z", "b", "a"] {
            let document =
                doc! { "_id": name, "event_type": "order-placed", "payload": "{}", "aggregate_id": "7" };
            events.insert_one(document).await.unwrap();
        }
        let store = Arc::new(site.store.clone());
        let (first, second) = tokio::join!(
            store.fetch(read_from(Cursor::default())),
            store.fetch(read_from(Cursor::default()))
        );
        let (first, second) = (first.unwrap(), second.unwrap());
        let read = store.fetch(read_from(Cursor::default())).await.unwrap();
        assert_eq!(read.rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["z", "b", "a"]);
        let numbers: BTreeSet<Seq> = read.rows.iter().map(|row| row.seq).collect();
        assert_eq!(numbers.len(), 3);
        for row in first.rows.iter().chain(&second.rows) {
            assert!(numbers.contains(&row.seq), "a number that was told is kept");
        }
        let adopted = events.find_one(doc! { "_id": "z" }).await.unwrap().unwrap();
        assert_eq!(adopted.get("group_key"), Some(&Bson::from("__GLOBAL__/7")));
        assert!(adopted.get_i64("created_at").unwrap() > 1_700_000_000_000_000, "microseconds");
        site.remove().await;
    }
}

/// EVT-040, PBX-011, PBX-122: nodes that take in the same documents at the same time give them numbers in one order.
#[tokio::test]
async fn documents_of_others_keep_their_order_whichever_node_numbers_them() {
    const DOCUMENTS: usize = 300;
    for site in Site::each().await {
        let events = site.database.collection::<Document>("outbox_event");
        let mut reading = JoinSet::new();
        for _ in 0..3 {
            let store = MongodbStore::new(site.database.clone()).await.unwrap();
            reading.spawn(async move {
                let mut seen = 0;
                while seen < DOCUMENTS {
                    match store.fetch(read_from(Cursor::default())).await {
                        Ok(fetched) => seen = fetched.rows.len(),
                        // As an engine does; a busy machine may take longer than a call waits.
                        Err(error) => assert!(error.is_transient(), "{error:?}"),
                    }
                }
                store.close().await;
            });
        }
        for number in 0..DOCUMENTS {
            let mut document = doc! { "_id": format!("{number:04}"), "event_type": "t", "payload": "{}" };
            // On a replica set, where the server keeps the order, they may say anything.
            let at = if site.store.facts().transactions { 7 } else { 1_700_000_000_000 + number as i64 };
            document.extend(doc! { "aggregate_id": "7", "created_at": DateTime::from_millis(at) });
            events.insert_one(document).await.unwrap();
        }
        reading.join_all().await;
        let read = site.store.fetch(read_from(Cursor::default())).await.unwrap();
        let ids: Vec<String> = read.rows.iter().map(|row| row.id.to_string()).collect();
        assert_eq!(ids, (0..DOCUMENTS).map(|number| format!("{number:04}")).collect::<Vec<_>>());
        site.remove().await;
    }
}

/// EVT-040, PBX-122: what a process was about to number when it died gets the numbers that it had for it, before anything
/// else; and numbers of its own once readers no longer wait for those.
#[tokio::test]
async fn a_plan_of_numbers_that_a_dead_process_left_is_carried_out() {
    const MINUTE_MS: i64 = 60_000;
    for site in Site::each().await {
        let events = site.database.collection::<Document>("outbox_event");
        let meta = site.database.collection::<Document>("outbox_meta");
        for (until_ms, numbers) in [(MINUTE_MS, [1, 2, 3]), (-MINUTE_MS, [1, 3, 4])] {
            events.delete_many(doc! {}).await.unwrap();
            for (name, at) in ["first", "second", "third"].into_iter().zip(1..) {
                let mut document = doc! { "_id": name, "event_type": "t", "payload": "{}" };
                document.extend(doc! { "aggregate_id": "7", "created_at": DateTime::from_millis(at) });
                events.insert_one(document).await.unwrap();
            }
            let entry = |name: &str, seq: i64| {
                let set = doc! { "seq": seq, "home": 1, "slot": 1, "status": 0, "attempts": 0, "created_at": 1_i64,
                "available_at": 1_i64, "group_key": "__GLOBAL__/7" };
                Bson::from(doc! { "key": name, "set": set })
            };
            let until = DateTime::from_millis(DateTime::now().timestamp_millis() + until_ms);
            let open = vec![Bson::from(doc! { "id": "dead", "first": 1_i64, "until": until })];
            let drawn = doc! { "$set": { "value": 2_i64, "open": open } };
            meta.update_one(doc! { "_id": "number" }, drawn).await.unwrap();
            let plan = vec![entry("first", 1), entry("second", 2)];
            let plan = doc! { "$set": { "version": 1_i64, "plan": plan } };
            meta.update_one(doc! { "_id": "adoption" }, plan).upsert(true).await.unwrap();
            events
                .update_one(
                    doc! { "_id": "first" },
                    doc! { "$set": { "seq": 1_i64, "slot": 1, "status": 0 } },
                )
                .await
                .unwrap();
            // A store of its own: this one would remember that it has drawn none of these numbers.
            let store = MongodbStore::new(site.database.clone()).await.unwrap();
            let read = store.fetch(read_from(Cursor::default())).await.unwrap();
            store.close().await;
            let read: Vec<(&str, i64)> = read.rows.iter().map(|row| (row.id.as_str(), row.seq.0)).collect();
            assert_eq!(read, ["first", "second", "third"].into_iter().zip(numbers).collect::<Vec<_>>());
        }
        site.remove().await;
    }
}

/// EVT-040, PBX-010: an id that was delivered, deleted and inserted again is another document: readers have passed the number of
/// the first, also where the process that gave it had no time to say that it was done.
#[tokio::test]
async fn a_document_that_is_inserted_again_gets_a_number_of_its_own() {
    for site in Site::each().await {
        let events = site.database.collection::<Document>("outbox_event");
        let meta = site.database.collection::<Document>("outbox_meta");
        let document =
            |group: &str| doc! { "_id": "again", "event_type": "t", "payload": "{}", "aggregate_id": group };
        let mut cursor = Cursor::default();
        for group in ["1", "2", "3"] {
            events.insert_one(document(group)).await.unwrap();
            let read = site.store.fetch(read_from(cursor.clone())).await.unwrap();
            let [row] = read.rows.as_slice() else { panic!("{group}: {:?}", read.rows) };
            assert!(row.seq > cursor.decided && read.cursor.decided >= row.seq, "{group}: {row:?}");
            let stored = events.find_one(doc! { "_id": "again" }).await.unwrap().unwrap();
            assert_eq!(stored.get_str("group_key").unwrap(), format!("__GLOBAL__/{group}"));
            events.delete_one(doc! { "_id": "again" }).await.unwrap();
            let plan = meta.find_one(doc! { "_id": "adoption" }).await.unwrap().unwrap();
            assert!(plan.get_array("plan").unwrap().is_empty(), "it is done");
            if group == "2" {
                // As a process leaves it that dies just before.
                let mut set = doc! { "seq": row.seq.0 };
                let fields =
                    ["home", "slot", "status", "attempts", "created_at", "available_at", "group_key"];
                set.extend(fields.map(|field| (field.to_owned(), stored.get(field).cloned().unwrap())));
                let plan = doc! { "$set": { "plan": [{ "key": "again", "set": set }] } };
                meta.update_one(doc! { "_id": "adoption" }, plan).await.unwrap();
            }
            cursor = read.cursor;
        }
        site.remove().await;
    }
}

/// EVT-040: whatever others leave out, misname or overfill, what is beside it is delivered, and it is set aside.
#[tokio::test]
async fn documents_of_others_that_are_wrong_hold_nothing_up() {
    const BOUND: usize = 16 << 20;
    for site in Site::each().await {
        let events = site.database.collection::<Document>("outbox_event");
        let wrong = [
            doc! { "_id": "nothing" },
            doc! { "_id": 7, "event_type": "t", "payload": "{}" },
            doc! { "_id": "null", "event_type": Bson::Null, "payload": Bson::Null, "status": Bson::Null },
            doc! { "_id": "typed", "event_type": 7, "payload": [1], "headers": 1.5, "aggregate_id": { "a": 1 } },
            doc! { "_id": "dates", "event_type": "t", "payload": "{}", "created_at": DateTime::MAX, "available_at": DateTime::MIN },
            doc! { "_id": "group", "event_type": "t", "payload": "{}", "aggregate_id": "g".repeat(7 << 20) },
            doc! { "_id": "large", "event_type": "t", "payload": "x".repeat(BOUND - 120) },
        ];
        for document in &wrong {
            events.insert_one(document).await.unwrap();
        }
        events.insert_one(doc! { "_id": "right", "event_type": "t", "payload": "{}" }).await.unwrap();
        let read = site.store.fetch(read_from(Cursor::default())).await.unwrap();
        let mut right: Vec<&str> =
            read.rows.iter().filter(|row| row.event.is_ok()).map(|row| row.id.as_str()).collect();
        right.sort_unstable();
        assert!(right.contains(&"right"), "{right:?}");
        assert!(
            ["nothing", "null", "typed", "group", "large"].iter().all(|id| !right.contains(id)),
            "{right:?}"
        );
        let unnumbered = events.count_documents(doc! { "seq": Bson::Null }).await.unwrap();
        assert_eq!(unnumbered, 0, "every one has its place");
        let oversized = site.database.collection::<Document>("outbox_oversized");
        let kept = oversized.find_one(doc! { "_id": "large" }).await.unwrap().expect("nothing is lost");
        assert_eq!(kept.get_str("payload").unwrap().len(), BOUND - 120);
        site.remove().await;
    }
}

/// PBX-105
#[tokio::test]
async fn one_process_purges_at_a_time() {
    for site in Site::each().await {
        site.store.write(rows(["a".to_owned(), "b".to_owned()])).await.unwrap();
        let late = Some(site.store.now().await.unwrap() + Duration::from_secs(60));
        let purge = || Purge { status: PurgeStatus::Any, older_than: Duration::ZERO, limit: 1, now: late };
        let turns = site.database.collection::<Document>("outbox_meta");
        assert_eq!(site.store.purge_in_turn(purge()).await.unwrap(), 1);
        let until = |at: i64| doc! { "$set": { "until": at } };
        turns.update_one(doc! { "_id": "purge" }, until(i64::MAX)).await.unwrap();
        assert_eq!(site.store.purge_in_turn(purge()).await.unwrap(), 0, "another one has the turn");
        turns.update_one(doc! { "_id": "purge" }, until(1)).await.unwrap();
        assert_eq!(site.store.purge_in_turn(purge()).await.unwrap(), 1, "a turn that was not ended expires");
        let left = turns.find_one(doc! { "_id": "purge" }).await.unwrap().unwrap();
        assert_eq!(left.get_i64("until").unwrap(), 0, "the turn is over");
        site.remove().await;
    }
}

/// RLY-010: a time that another program wrote as something else stops no other item, nor its own.
#[tokio::test]
async fn an_item_whose_time_is_no_date_is_taken() {
    for site in Site::each().await {
        let items = MongodbStore::builder(site.database.clone()).open_items().await.unwrap();
        items.migrate().await.unwrap();
        let lease = Duration::from_secs(60);
        let (node, label) = (NodeId::from_random(1), "node".to_owned());
        items
            .register(Register { node, label, lease, reads: ReadScope::default(), now: None })
            .await
            .unwrap();
        let collection = site.database.collection::<Document>("outbox_events");
        for (id, processed_at) in [("0HZXEQ5Y8JY01", Bson::from("yesterday")), ("0HZXEQ5Y8JY02", Bson::Null)]
        {
            let item = doc! {
                "_id": id, "type": "EVENT", "messageGroup": "g", "payload": "{}", "status": "PENDING",
                "retryCount": 0, "createdAt": DateTime::now(), "processedAt": processed_at,
            };
            collection.insert_one(item).await.unwrap();
        }
        let (after, except, bytes) = (None, Vec::new(), ByteLimits::NONE);
        let (ungrouped, ungrouped_order) = (10, Order::PerGroup);
        let take =
            Take { node, after, except, rows: 10, bytes, each: 10, ungrouped, ungrouped_order, now: None };
        assert_eq!(items.take(take).await.unwrap().rows.len(), 2);
        items.close().await;
        site.remove().await;
    }
}
