//! The store's own connections, reserved by purpose, so that a busy pool cannot cost a node its lease.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pillarbox::port::ErrorKind;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::TaskTracker;

use crate::retry::retry_conflicts;
use crate::{Refused, ServerFailure, ServerSettings};

/// How long the store waits for an answer after the server should have cancelled the statement.
const GRACE: Duration = Duration::from_secs(5);

/// What a connection is reserved for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Reading pending rows.
    Fetch,
    /// Recording outcomes.
    Settle,
    /// Renewing leases.
    Heartbeat,
    /// Claims, promotions, operators and everything else.
    General,
}

/// The future of a call on a session; boxed, because it borrows the session.
pub type Work<'c, T, F> = Pin<Box<dyn Future<Output = Result<T, F>> + Send + 'c>>;

/// A call with the store's statements and a request. It is a plain function, so that it can be retried.
pub type Call<S, C, R, T> = for<'c> fn(&'c mut S, &'c C, &'c R) -> Work<'c, T, <S as Session>::Error>;

/// A [`Call`] that runs a function of a store: `call!(claim::claim)`.
#[macro_export]
macro_rules! call {
    ($function:expr) => {
        |session, sql, request| ::std::boxed::Box::pin($function(session, sql, request))
    };
}

/// One connection, with hooks around each piece of work on it.
pub trait Session: Send + 'static {
    /// The failure type of the work.
    type Error: ServerFailure;

    /// Prepares the connection for a piece of work.
    fn begin_work(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Ends a piece of work, so that no transaction stays open whether it succeeded or failed.
    fn end_work(
        &mut self,
        failed: Option<&Self::Error>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// Opens the store's connections.
pub trait OpenSession: Send + Sync + 'static {
    /// The type of a connection.
    type Session: Session;

    /// Opens a connection for a purpose.
    fn connect(
        &self,
        purpose: Purpose,
    ) -> impl Future<Output = Result<Self::Session, <Self::Session as Session>::Error>> + Send;
}

/// Connections by purpose, and a tracker of the work in flight on them.
pub struct Pools<K: OpenSession> {
    connector: K,
    statement_timeout: Duration,
    tasks: TaskTracker,
    fetch: Pool<K::Session>,
    settle: Pool<K::Session>,
    heartbeat: Pool<K::Session>,
    general: Pool<K::Session>,
}

/// Connections for one purpose: opened on demand, kept, and replaced when they break.
struct Pool<S> {
    permits: Semaphore,
    idle: Mutex<Vec<S>>,
}

impl<S> Pool<S> {
    const fn new(connections: usize) -> Self {
        Self { permits: Semaphore::const_new(connections), idle: Mutex::new(Vec::new()) }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<S>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: OpenSession> Pools<K> {
    /// Creates empty pools: for one connection each to read, settle and send heartbeats, and for
    /// `general_connections` to do everything else.
    pub fn new(connector: K, settings: &ServerSettings) -> Arc<Self> {
        Arc::new(Self {
            connector,
            statement_timeout: settings.statement_timeout,
            tasks: TaskTracker::new(),
            fetch: Pool::new(1),
            settle: Pool::new(1),
            heartbeat: Pool::new(1),
            general: Pool::new(settings.general_connections),
        })
    }

    /// The connector that opens connections.
    pub const fn connector(&self) -> &K {
        &self.connector
    }

    /// The deadline of a call that begins now.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        Instant::now() + self.statement_timeout + GRACE
    }

    /// Spawns a task that `close` waits for. Returns false if there is no runtime.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> bool {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return false };
        self.tasks.spawn_on(task, &runtime);
        true
    }

    /// Waits for all work in flight, then closes the connections.
    pub async fn close(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        for pool in [&self.fetch, &self.settle, &self.heartbeat, &self.general] {
            pool.idle().clear();
        }
    }

    /// Runs a future to completion in a task, so that dropping the caller does not stop it half-way.
    ///
    /// # Errors
    /// If the future panics.
    pub async fn to_its_end<T: Send + 'static>(
        &self,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, <K::Session as Session>::Error> {
        self.tasks.spawn(call).await.map_err(|_| Refused::panicked().into())
    }

    /// Makes a call on a connection for this purpose. The call runs to completion, even if the caller stops
    /// waiting. If it loses a conflict with another transaction, it is rolled back and retried.
    ///
    /// # Errors
    /// If no connection is available in time, or if the call fails.
    pub async fn call<C, R, T>(
        self: &Arc<Self>,
        purpose: Purpose,
        context: Arc<C>,
        request: R,
        call: Call<K::Session, C, R, T>,
    ) -> Result<T, <K::Session as Session>::Error>
    where
        C: Send + Sync + 'static,
        R: Send + Sync + 'static,
        T: Send + 'static,
    {
        let pools = Arc::clone(self);
        self.to_its_end(async move { pools.run(purpose, &*context, &request, call).await }).await?
    }

    async fn run<C, R, T>(
        &self,
        purpose: Purpose,
        context: &C,
        request: &R,
        call: Call<K::Session, C, R, T>,
    ) -> Result<T, <K::Session as Session>::Error> {
        let (pool, deadline) = (self.pool(purpose), self.deadline());
        let busy = || Refused::new(ErrorKind::Timeout, "no connection became free");
        let permit = timeout_at(deadline, pool.permits.acquire()).await;
        let _permit = permit.map_err(|_| busy())?.map_err(|_| busy())?;
        let idle = pool.idle().pop();
        let mut session = match idle {
            Some(session) => session,
            None => {
                let connected = timeout_at(deadline, self.connector.connect(purpose)).await;
                connected.map_err(|_| Refused::late("connecting"))??
            }
        };
        let answer = timeout_at(self.deadline(), retry_conflicts(&mut session, context, request, call)).await;
        // After a timeout no one knows what the server is doing: drop the connection, never reuse it.
        let answer = answer.map_err(|_| Refused::late("the server"))?;
        match &answer {
            Err(failure) if !failure.spares_connection() => {
                // Whatever broke this connection has most likely broken the idle ones.
                pool.idle().clear();
            }
            _ => pool.idle().push(session),
        }
        answer
    }

    const fn pool(&self, purpose: Purpose) -> &Pool<K::Session> {
        match purpose {
            Purpose::Fetch => &self.fetch,
            Purpose::Settle => &self.settle,
            Purpose::Heartbeat => &self.heartbeat,
            Purpose::General => &self.general,
        }
    }
}
