//! Calls that are dropped half way: whatever they had begun is over before the connection serves someone else.

use pillarbox::port::{Begin, CommitError, StoreError};
use pillarbox_conformance::within;
use pillarbox_postgres::sqlx::query;
use pillarbox_postgres::tokio_postgres::error::SqlState;
use tokio::time::timeout;

use crate::kit::{Kit, row};
use crate::wire::NEVER;

/// No transaction needs more steps than this to its end.
const MOST_STEPS: usize = 200;
const ROUNDS: usize = 10;

/// PBX-024: wherever a call is dropped, the next user of the connection finds no transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_call_leaves_no_open_transaction_in_the_pool() {
    let Some(kit) = Kit::new("a_dropped_call_leaves_no_open_transaction_in_the_pool").await else { return };
    let store = kit.pipelined(1);
    let outside = async || {
        let object = timeout(NEVER, store.pool().get()).await.unwrap().unwrap();
        let refused = object.batch_execute("SAVEPOINT here").await.unwrap_err();
        assert_eq!(refused.code(), Some(&SqlState::NO_ACTIVE_SQL_TRANSACTION));
    };
    drop_everywhere(&kit, &store, outside).await;
}

/// PBX-024
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_call_leaves_no_open_transaction_in_the_pool_of_sqlx() {
    let test = "a_dropped_call_leaves_no_open_transaction_in_the_pool_of_sqlx";
    let Some(kit) = Kit::new(test).await else { return };
    let (store, pool) = kit.own_pool(1);
    let outside = async || {
        let mut connection = timeout(NEVER, pool.acquire()).await.unwrap().unwrap();
        let refused = query("SAVEPOINT here").execute(&mut *connection).await.unwrap_err();
        let code = refused.as_database_error().and_then(|error| error.code()).unwrap();
        assert_eq!(code, SqlState::NO_ACTIVE_SQL_TRANSACTION.code());
    };
    drop_everywhere(&kit, &store, outside).await;
}

/// Drops a whole transaction after its first step, its second, and so on until it comes to its end.
async fn drop_everywhere<S: Begin>(kit: &Kit, store: &S, outside: impl AsyncFn()) {
    for round in 0..ROUNDS {
        let mut finished = false;
        for steps in 0..MOST_STEPS {
            let id = format!("{round}-{steps}");
            finished = within(steps, write_two(store, &id)).await.is_some();
            outside().await;
            assert!(kit.none_left_open().await, "dropped after {steps} steps");
            if finished {
                break;
            }
        }
        assert!(finished, "{MOST_STEPS} steps were too few");
    }
    let (events, _) = kit.counts().await;
    assert_eq!(events % 2, 0, "each transaction happened whole or not at all");
}

async fn write_two<S: Begin>(store: &S, id: &str) -> Result<(), StoreError> {
    let mut tx = store.begin().await?;
    store.insert(&mut tx, &[row(&format!("{id}-a"))]).await?;
    let committed = store.commit_with(tx, &[row(&format!("{id}-b"))], || ()).await;
    committed.map(drop).map_err(|error| match error {
        CommitError::Refused(error) | CommitError::Unknown(error) => error,
    })
}
