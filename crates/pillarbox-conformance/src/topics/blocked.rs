//! Listeners that block every thread of their runtime.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use pillarbox::engine::{Engine, EngineParts, EngineSettings};
use pillarbox::port::{Delivery, Handed, NoMetrics, Sink, Verdict, Write};
use pillarbox::rules::Lease;
use tokio::runtime::Builder;
use tokio::sync::watch;

use crate::case::{Case, Checked, cases};
use crate::harness::Fixture;
use crate::kit::*;

/// The threads of the runtime that is blocked.
const THREADS: usize = 2;
const ROWS: usize = 4;

pub(crate) fn cases() -> Vec<Case> {
    cases!("blocked"; Nothing: listeners_that_block_every_thread_cost_no_lease)
}

/// Blocks the thread it is called on until it is let go.
struct Blocking {
    begun: watch::Sender<usize>,
    ended: watch::Sender<usize>,
    open: Mutex<bool>,
    opened: Condvar,
}

impl Blocking {
    fn let_go(&self) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.opened.notify_all();
    }
}

impl Sink for Blocking {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> Handed<'a> {
        Box::pin(async move {
            self.begun.send_modify(|count| *count += batch.len());
            let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            drop(self.opened.wait_while(open, |open| !*open));
            self.ended.send_modify(|count| *count += batch.len());
            vec![Verdict::Accepted; batch.len()]
        })
    }
}

/// PBX-094
async fn listeners_that_block_every_thread_cost_no_lease(t: Fixture) -> Checked {
    let lease = Duration::from_secs(3);
    let rows = plain(&["a", "b", "c", "d"]);
    t.store.write(Write { rows, now: None }).await?;
    let sink = Arc::new(Blocking {
        begun: watch::Sender::new(0),
        ended: watch::Sender::new(0),
        open: Mutex::new(false),
        opened: Condvar::new(),
    });
    let parts = EngineParts {
        table: t.store.clone(),
        sink: sink.clone(),
        metrics: Arc::new(NoMetrics),
        settings: EngineSettings {
            lease: Lease::new(lease).expect("a lease"),
            workers: ROWS,
            ..EngineSettings::default()
        },
        seed: 7,
    };
    let app = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build().expect("a runtime");
    let engine = app.spawn(Engine::start(parts)).await.expect("no panic");
    let mut begun = sink.begun.subscribe();
    begun.wait_for(|begun| *begun == THREADS).await.expect("every thread is blocked");
    let watched = watch_node(&t, lease).await;
    sink.let_go();
    let mut ended = sink.ended.subscribe();
    let closed = async move {
        let _ = ended.wait_for(|ended| *ended == ROWS).await;
        engine?.close().await;
        Ok(())
    };
    let closed = app.spawn(closed).await.expect("no panic");
    app.shutdown_background();
    watched?;
    assert_eq!(*sink.ended.borrow(), ROWS, "each was delivered once");
    closed
}

/// The node stays a member for two leases.
async fn watch_node(t: &Fixture, lease: Duration) -> Checked {
    let since = t.beside.now().await?;
    while t.beside.now().await? < since + lease * 2 {
        let nodes = t.beside.admin().nodes().await?;
        let alive = nodes.iter().filter(|node| node.expires_in.is_some()).count();
        assert_eq!((nodes.len(), alive), (1, 1), "the node's lease ran out");
    }
    Ok(())
}
