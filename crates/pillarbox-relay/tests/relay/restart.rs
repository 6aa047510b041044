//! A database that goes away and comes back under a running relay.

use std::io::Write as _;

use pillarbox::model::Layout;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::kit::{Fixture, PATIENCE, Recorder, numbered, statuses, write};
use crate::server::{Server, Stop};

/// RLY-001, RLY-021, PBX-010: nothing is lost or out of order, nobody has to start the relay again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_outlives_restarts_of_its_database() {
    let mut server = match Server::new(&[]) {
        Ok(server) => server,
        Err(why) => {
            writeln!(std::io::stdout(), "could not run: relay over restarts of postgres: {why}").unwrap();
            return;
        }
    };
    for (layout, table) in [(Layout::Native, "outbox_event"), (Layout::Flowcatalyst, "outbox_events")] {
        let fixture = Fixture::on(server.url());
        let recorder = Recorder::new();
        fixture.table(layout, table).await;
        let layout_name = layout.to_string();
        let flags = [("layout", layout_name.as_str()), ("dispatch-jobs-table", ""), ("lease", "1s")];
        let mut relay = fixture.relay(&recorder, &flags).await;
        let numbered = numbered("a", 9);
        let mut written = 0;
        for how in [Stop::Immediate, Stop::Kill, Stop::Fast] {
            // These are on their way while the server ends; their done marks may be lost with it.
            write(&fixture.table(layout, table).await, Some("a"), &numbered[written..written + 2]).await;
            recorder
                .until(|seen| seen.iter().any(|batch| batch.payloads.contains(&numbered[written + 1])))
                .await;
            let mut down = server;
            server = spawn_blocking(move || {
                down.stop(how);
                down.start().unwrap();
                down
            })
            .await
            .unwrap();
            write(&fixture.table(layout, table).await, Some("a"), &numbered[written + 2..written + 3]).await;
            recorder
                .until(|seen| seen.iter().any(|batch| batch.payloads.contains(&numbered[written + 2])))
                .await;
            written += 3;
        }
        timeout(PATIENCE, relay.until_empty()).await.expect("it drains");
        relay.close().await;
        let mut first: Vec<String> = Vec::new();
        for payload in recorder.of_group("a") {
            if !first.contains(&payload) {
                first.push(payload);
            }
        }
        assert_eq!(first, numbered, "{layout}");
        assert_eq!(statuses(&fixture.table(layout, table).await).await, [0, 9, 0, 0], "{layout}");
    }
}
