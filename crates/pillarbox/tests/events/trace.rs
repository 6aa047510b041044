//! The trace travels from the writing transaction to the listener.

use std::sync::{Arc, Mutex};

use pillarbox::events::trace;
use pillarbox::model::{Status, TraceContext};
use pillarbox::{Event, Failure, Outbox, Writer};

use crate::kit::{Watched, event};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const OTHER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

fn context(parent: &str) -> TraceContext {
    TraceContext::new(parent, Some("vendor=1".to_owned())).unwrap()
}

/// PBX-020
#[tokio::test(start_paused = true)]
async fn the_trace_of_the_writing_task_is_current_in_the_listener_hot_and_cold() {
    for hot in [true, false] {
        let store = Watched::new();
        let current = Arc::new(Mutex::new(None));
        let note = Arc::clone(&current);
        let listener = move |_: Event| {
            let note = Arc::clone(&note);
            async move {
                *note.lock().unwrap() = trace::current();
                Ok::<_, Failure>(())
            }
        };
        let writer = Writer::new(Arc::new(store.clone()));
        let outbox = Outbox::single_node(store.clone()).listener("t", listener).start().await.unwrap();
        trace::scope(context(PARENT), async {
            let mut tx = if hot { outbox.begin().await } else { writer.begin().await }.unwrap();
            tx.write(event("a").build().unwrap()).unwrap();
            tx.commit().await.unwrap();
        })
        .await;
        let record = store.until("a", Status::Done).await;
        outbox.close().await;
        let headers = record.event.unwrap().headers().clone();
        assert_eq!((headers.get("traceparent"), headers.get("tracestate")), (Some(PARENT), Some("vendor=1")));
        assert_eq!(*current.lock().unwrap(), Some(context(PARENT)), "hot {hot}");
    }
}

/// PBX-020
#[tokio::test]
async fn a_trace_that_an_event_names_itself_is_kept_and_without_one_there_is_none() {
    let writer = Writer::new(Arc::new(Watched::new()));
    let mut tx = writer.begin().await.unwrap();
    tx.write(event("none")).unwrap();
    trace::scope(context(PARENT), async { tx.write(event("own").trace_context(&context(OTHER))) })
        .await
        .unwrap();
    let written: Vec<_> = tx.written().map(Event::trace_context).collect();
    assert_eq!(written, [None, Some(context(OTHER))]);
    assert!(tx.written().next().unwrap().headers().is_empty());
}

/// PBX-020
#[tokio::test]
async fn the_trace_may_come_from_a_source_of_ones_own() {
    let writer = Writer::new(Arc::new(Watched::new())).trace_source(Arc::new(|| Some(context(OTHER))));
    let mut tx = writer.begin().await.unwrap();
    tx.write(event("a")).unwrap();
    assert_eq!(tx.written().next().unwrap().trace_context(), Some(context(OTHER)));
}
