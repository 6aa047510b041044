//! INSERT and COMMIT go out together: seen on the wire, between the driver and the server.

use pillarbox::port::Begin;

use crate::kit::{Kit, row};
use crate::wire::Wire;

/// With every answer held back, COMMIT is sent: it did not wait for the answer to INSERT.
#[tokio::test]
async fn insert_and_commit_are_sent_before_either_is_answered() {
    let Some(kit) = Kit::new("insert_and_commit_are_sent_before_either_is_answered").await else { return };
    let wire = Wire::to_server(&kit).await;
    let store = kit.pipelined_through(wire.port, 1);

    // The first transaction of a connection prepares the statement.
    let tx = store.begin().await.unwrap();
    store.commit_with(tx, &[row("a")], || ()).await.unwrap();
    let tx = store.begin().await.unwrap();
    wire.hold(true);
    let rows = [row("b")];
    let commit = store.commit_with(tx, &rows, || ());
    let sent = async {
        let sent = wire.has_sent(b"COMMIT").await;
        assert!(sent.windows(11).any(|part| part == b"OrderPlaced"), "the event went before");
        wire.hold(false);
    };
    let (written, ()) = tokio::join!(commit, sent);
    assert_eq!(written.unwrap().len(), 1);
    assert_eq!(kit.counts().await, (2, 0));
}
