//! What tests of grants let a database user do.

use std::time::Duration;

use pillarbox::Event;
use pillarbox::model::{EventId, GroupKey, NewRow, NodeId, Placement, Seq, Slot};
use pillarbox::port::{
    ByteLimits, Change, Counts, Fence, Heartbeat, ItemStore, OnDone, Order, Outcome, ReadScope, Recover,
    Register, Settle, StoreError, Take, Wait, Write,
};

/// Writes items of four groups into FlowCatalyst's tables, as whoever owns them.
pub async fn fill_items(store: &dyn ItemStore) -> Result<(), StoreError> {
    let item = |group: &str| {
        let event = Event::text("EVENT", "{}").id(EventId::tsid().to_string()).group(group);
        NewRow {
            event: event.build_within(&store.facts().limits).expect("a valid item"),
            placement: Placement::Slot,
        }
    };
    store.write(Write { rows: ["a", "b", "c", "d"].map(item).into(), now: None }).await.map(drop)
}

/// What a relay on FlowCatalyst's tables does from its start to its end, with the items of [`fill_items`].
pub async fn relay_items(store: &dyn ItemStore, node: NodeId) -> Result<(), StoreError> {
    store.admin().check().await?;
    let lease = Duration::from_secs(60);
    store
        .register(Register { node, label: "grants".to_owned(), reads: ReadScope::Share, lease, now: None })
        .await?;
    let take = Take {
        node,
        after: None,
        except: Vec::new(),
        rows: 10,
        bytes: ByteLimits::NONE,
        each: 10,
        ungrouped: 10,
        ungrouped_order: Order::PerGroup,
        now: None,
    };
    let taken = store.take(take).await?;
    assert_eq!(taken.rows.len(), 4, "nothing to deliver");
    let (error, delay) = ("no".to_owned(), Duration::ZERO);
    let retry = Change::Retry { delay, error: error.clone(), counts: Counts::Made(1), wait: Wait::InPlace };
    let dead = Change::Dead { error, counts: Counts::Made(1), blocks: Some(GroupKey::new("c")) };
    for (row, change) in taken.rows.iter().zip([Change::Done, retry, dead]) {
        let outcomes = [Outcome { seq: row.seq, id: row.id.clone(), token: row.token, change }].into();
        store
            .settle(Settle {
                fence: Fence::Node(node),
                outcomes,
                on_done: OnDone::Keep,
                repeats: None,
                now: None,
            })
            .await?;
    }
    let recover = Recover { node, older_than: Duration::ZERO, except: Vec::new(), rows: 10, now: None };
    assert_eq!(store.recover(recover).await?, 1);
    let heartbeat = |release, sweep| Heartbeat {
        node,
        lease,
        release,
        groups_seen: 0,
        after: Seq(0),
        sweep,
        trusted: Vec::new(),
        now: None,
    };
    store.heartbeat(heartbeat(Vec::new(), false)).await?.expect("a member");
    store.heartbeat(heartbeat(vec![Slot(0)], true)).await?.expect("a member");
    store.leave(node).await
}
