//! Retries work that lost a conflict with another transaction.

use std::time::Duration;

use tokio::time::sleep;

use crate::pool::{Call, Session};
use crate::{Refused, ServerFailure};

/// The maximum number of tries.
const TRIES: u32 = 5;
/// The pause before the second try; it triples before each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(2);

/// Makes a call, and retries it with growing pauses while it loses conflicts. Of two transactions that wait
/// for each other, one goes through.
pub(crate) async fn retry_conflicts<S: Session, C, R, T>(
    session: &mut S,
    context: &C,
    request: &R,
    call: Call<S, C, R, T>,
) -> Result<T, S::Error> {
    let mut pause = FIRST_PAUSE;
    for attempt in 1..=TRIES {
        session.begin_work().await?;
        let answer = call(session, context, request).await;
        session.end_work(answer.as_ref().err()).await?;
        match answer {
            Err(failure) if failure.is_lost_race() && attempt < TRIES => {
                tracing::debug!(attempt, "lost a conflict with another transaction; retrying");
                sleep(pause).await;
                pause *= 3;
            }
            answer => return answer,
        }
    }
    Err(Refused::late("the server").into())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use pillarbox::port::{ErrorKind, StoreError};

    use crate::pool::{OpenSession, Pools, Purpose, Session, Work};
    use crate::{Refused, ServerFailure, ServerSettings};

    #[derive(Debug, PartialEq, Eq)]
    enum TestError {
        Lost,
        Broken,
        Refused(String),
    }

    impl From<Refused> for TestError {
        fn from(refused: Refused) -> Self {
            Self::Refused(refused.detail)
        }
    }

    impl ServerFailure for TestError {
        fn into_store_error(self, operation: &'static str, store: &str) -> StoreError {
            StoreError::new(ErrorKind::Conflict, operation, store, "lost")
        }

        fn spares_connection(&self) -> bool {
            *self != Self::Broken
        }

        fn is_answer(&self) -> bool {
            true
        }

        fn is_lost_race(&self) -> bool {
            *self == Self::Lost
        }
    }

    /// Counts what was begun and ended on it.
    struct Counting(u32, u32);

    impl Session for Counting {
        type Error = TestError;

        async fn begin_work(&mut self) -> Result<(), TestError> {
            self.0 += 1;
            Ok(())
        }

        async fn end_work(&mut self, _: Option<&TestError>) -> Result<(), TestError> {
            self.1 += 1;
            Ok(())
        }
    }

    #[derive(Default)]
    struct Connector(AtomicU32);

    impl OpenSession for Connector {
        type Session = Counting;

        async fn connect(&self, _: Purpose) -> Result<Counting, TestError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(Counting(0, 0))
        }
    }

    /// Loses this many times, then tells how often work was begun and ended.
    fn losing<'c>(session: &'c mut Counting, _: &'c (), losses: &'c u32) -> Work<'c, (u32, u32), TestError> {
        Box::pin(async move {
            if session.0 <= *losses { Err(TestError::Lost) } else { Ok((session.0, session.1)) }
        })
    }

    fn broken<'c>(_: &'c mut Counting, _: &'c (), _: &'c ()) -> Work<'c, (), TestError> {
        Box::pin(async { Err(TestError::Broken) })
    }

    fn pools() -> Arc<Pools<Connector>> {
        Pools::new(Connector::default(), &ServerSettings::default())
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_lost_is_ended_and_done_again() {
        let done = pools().call(Purpose::Settle, Arc::new(()), 4, losing).await;
        assert_eq!(done, Ok((5, 4)));
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_lost_five_times_has_lost() {
        let done = pools().call(Purpose::Settle, Arc::new(()), 5, losing).await;
        assert_eq!(done, Err(TestError::Lost));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_serves_the_next_call_unless_it_is_broken() {
        let pools = pools();
        let connections = || pools.connector().0.load(Ordering::Relaxed);
        for _ in 0..3 {
            pools.call(Purpose::General, Arc::new(()), 0, losing).await.unwrap();
        }
        assert_eq!(connections(), 1);
        assert_eq!(pools.call(Purpose::General, Arc::new(()), (), broken).await, Err(TestError::Broken));
        pools.call(Purpose::General, Arc::new(()), 0, losing).await.unwrap();
        assert_eq!(connections(), 2);
        pools.call(Purpose::Heartbeat, Arc::new(()), 0, losing).await.unwrap();
        assert_eq!(connections(), 3, "each purpose has connections of its own");
    }
}
