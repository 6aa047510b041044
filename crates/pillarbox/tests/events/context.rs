//! The transaction context: for code that can't pass a transaction down.

use std::sync::{Arc, Mutex};

use pillarbox::Writer;
use pillarbox::events::{ScopeError, TaskContext, TransactionContext, WriteError};
use pillarbox::memory::MemoryStore;
use pillarbox::model::EventId;

use crate::kit::{Watched, event};

fn is_active() -> bool {
    TransactionContext::<Watched>::is_active(&TaskContext)
}

async fn write(id: &str) -> Result<Option<EventId>, WriteError> {
    TransactionContext::<Watched>::write(&TaskContext, event(id)).await
}

/// EVT-020, EVT-024
#[tokio::test]
async fn writing_outside_a_transaction_fails_at_once() {
    assert!(!is_active());
    let error = write("a").await.unwrap_err();
    assert!(matches!(error, WriteError::NoTransaction));
    assert!(error.to_string().contains("no transaction is active here"), "{error}");
    let callback = TransactionContext::<Watched>::after_commit(&TaskContext, || ()).await;
    assert!(matches!(callback, Err(WriteError::NoTransaction)));
}

/// EVT-021, EVT-022, EVT-024
#[tokio::test]
async fn a_scope_commits_what_its_body_wrote_and_then_calls_back() {
    let writer = Writer::new(Arc::new(Watched::new()));
    let ends = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&ends);
    let id = writer
        .scope(async {
            assert!(is_active());
            let context: &dyn Fn() -> bool = &is_active;
            assert!(context());
            let told = Arc::clone(&ends);
            TransactionContext::<Watched>::after_commit(&TaskContext, move || told.lock().unwrap().push("c"))
                .await?;
            let told = Arc::clone(&ends);
            TransactionContext::<Watched>::after_rollback(&TaskContext, move || {
                told.lock().unwrap().push("r")
            })
            .await?;
            write("a").await
        })
        .await;
    assert_eq!(id.unwrap().unwrap().as_str(), "a");
    assert_eq!(*seen.lock().unwrap(), ["c"]);
    assert!(!is_active() && writer.store().status("a").await.is_some());
}

/// EVT-022, EVT-024
#[tokio::test]
async fn a_scope_whose_body_fails_rolls_back() {
    let writer = Writer::new(Arc::new(Watched::new()));
    let ends = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&ends);
    let result = writer.scope(async {
        write("a").await.unwrap();
        let context = TransactionContext::<Watched>::after_rollback(&TaskContext, move || {
            told.lock().unwrap().push("r");
        });
        context.await.unwrap();
        Err::<(), _>("no")
    });
    assert!(matches!(result.await, Err(ScopeError::Body("no"))));
    assert_eq!(*ends.lock().unwrap(), ["r"]);
    assert_eq!((writer.store().rows().await, writer.store().count("rollback")), (0, 1));
}

/// EVT-024
#[tokio::test]
async fn the_current_transaction_is_the_drivers_own() {
    let writer = Writer::new(Arc::new(Watched::new()));
    let scope = writer.scope(async {
        let mut tx = TransactionContext::<Watched>::current(&TaskContext).await?;
        tx.write(event("a"))?;
        assert!(format!("{:?}", tx.conn()).starts_with("MemoryTransaction"));
        Ok::<_, WriteError>(())
    });
    scope.await.unwrap();
    assert_eq!(writer.store().rows().await, 1);
}

/// EVT-024
#[tokio::test]
async fn a_scope_of_one_kind_of_store_is_none_of_another() {
    let writer = Writer::new(Arc::new(MemoryStore::new()));
    let scope = writer.scope(async {
        assert!(!is_active());
        Ok::<_, WriteError>(write("a").await.is_err())
    });
    assert!(scope.await.unwrap());
}

/// EVT-024
#[tokio::test]
async fn an_inner_scope_is_a_transaction_of_its_own() {
    let writer = Writer::new(Arc::new(Watched::new()));
    let outer = writer.scope(async {
        write("outer").await.unwrap();
        let inner = writer.scope(async {
            write("inner").await.unwrap();
            Err::<(), _>("taken back")
        });
        assert!(inner.await.is_err());
        write("outer too").await.map(|_| ())
    });
    outer.await.unwrap();
    assert_eq!(writer.store().rows().await, 2);
    assert_eq!(writer.store().status("inner").await, None);
}

/// EVT-024
#[tokio::test]
async fn a_scope_tells_whether_begin_or_commit_failed() {
    let writer = Writer::new(Arc::new(Watched::new()));
    writer.store().fail("begin");
    assert!(matches!(writer.scope(async { Ok::<_, ()>(()) }).await, Err(ScopeError::Begin(_))));
    writer.store().heal();
    writer.store().fail("commit");
    assert!(matches!(writer.scope(async { Ok::<_, ()>(()) }).await, Err(ScopeError::Commit(_))));
}
