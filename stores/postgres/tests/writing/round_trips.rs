//! How often the queue goes to the server and back: seen on the wire.

use std::time::Duration;

use pillarbox::model::{Event, OwnerId};
use pillarbox::port::{JoinAction, JoinChange, Store};
use pillarbox::{Queue, model::JoinId};

use crate::kit::Kit;
use crate::wire::Wire;

const LEASE: Duration = Duration::from_secs(60);

/// OBX-112, OBX-120: once a connection has prepared its statements, every operation is one trip.
#[tokio::test]
async fn every_operation_of_the_queue_is_one_round_trip() {
    let Some(kit) = Kit::new("every_operation_of_the_queue_is_one_round_trip").await else { return };
    let wire = Wire::to_server(&kit).await;
    let queue = Queue::new(kit.quiet_store_through(wire.port, 2));
    let ann = OwnerId::new("ann").unwrap();
    let mut trips = Vec::new();
    for round in 0..2 {
        trips.clear();
        wire.trips();
        for topic in ["ack", "abandon", "fail", "extend"] {
            queue.enqueue(Event::text(topic, "{}")).await.unwrap();
            trips.push(("enqueue", wire.trips()));
        }
        let claimed = queue.claim(&ann, LEASE, 4).await.unwrap();
        trips.push(("claim", wire.trips()));
        let item = |index: usize| std::slice::from_ref(claimed[index].id());
        assert_eq!(queue.ack(&ann, item(0)).await.unwrap().changed, 1);
        trips.push(("ack", wire.trips()));
        assert_eq!(queue.abandon(&ann, item(1), Some("later")).await.unwrap().changed, 1);
        trips.push(("abandon", wire.trips()));
        assert_eq!(queue.fail(&ann, item(2), "never").await.unwrap().changed, 1);
        trips.push(("fail", wire.trips()));
        assert_eq!(queue.extend(&ann, item(3), LEASE).await.unwrap().changed, 1);
        trips.push(("extend", wire.trips()));
        queue.reap(9).await.unwrap();
        trips.push(("reap", wire.trips()));
        let action = JoinAction::Start { grouping_key: None, expected: 1, metadata: None };
        let change = JoinChange { join: JoinId::new(format!("j{round}")).unwrap(), action, now: None };
        queue.store().joins().unwrap().change_join(change).await.unwrap();
        trips.push(("start a join", wire.trips()));
    }
    let more: Vec<_> = trips.iter().filter(|(_, trips)| *trips != 1).collect();
    assert!(more.is_empty(), "{more:?}");
}
