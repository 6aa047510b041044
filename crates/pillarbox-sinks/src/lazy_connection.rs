//! A connection that is opened on first use and replaced as a whole when it breaks.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;

/// The current connection of a sink, if there is one.
///
/// A delivery sends its whole batch over the connection it began with. A client that reconnected by itself
/// would send the rest of a batch after its beginning was lost with the old connection, and so break the
/// order.
pub(crate) struct LazyConnection<C> {
    current: Mutex<SharedConnection<C>>,
}

/// The connection that one delivery uses. It is empty until the first connect succeeds.
pub(crate) type SharedConnection<C> = Arc<OnceCell<C>>;

impl<C> LazyConnection<C> {
    pub(crate) fn new() -> Self {
        Self { current: Mutex::new(Arc::new(OnceCell::new())) }
    }

    /// The current connection. Concurrent deliveries wait for one `connect` instead of connecting twice.
    pub(crate) async fn held<E, F>(&self, connect: impl FnOnce() -> F) -> Result<SharedConnection<C>, E>
    where
        F: Future<Output = Result<C, E>>,
    {
        let held = self.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        held.get_or_try_init(connect).await?;
        Ok(held)
    }

    /// Drops a broken connection, so that the next delivery connects again. Does nothing if another delivery
    /// has replaced it already: the newer connection is not the broken one.
    pub(crate) fn give_up(&self, broken: &SharedConnection<C>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(&current, broken) {
            *current = Arc::new(OnceCell::new());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_connection_is_replaced_once() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let connection = LazyConnection::new();
            let connect = |number: u32| async move { Ok::<_, ()>(number) };
            let first = connection.held(|| connect(1)).await.unwrap();
            connection.give_up(&first);
            let second = connection.held(|| connect(2)).await.unwrap();
            // Another delivery of the first connection fails later.
            connection.give_up(&first);
            let third = connection.held(|| connect(3)).await.unwrap();
            assert_eq!([first.get(), second.get(), third.get()], [Some(&1), Some(&2), Some(&2)]);
        });
    }

    #[test]
    fn what_could_not_be_made_is_tried_again() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let connection = LazyConnection::new();
            assert!(connection.held(|| async { Err("down") }).await.is_err());
            assert!(connection.held(|| async { Ok::<_, ()>(1) }).await.is_ok());
        });
    }
}
