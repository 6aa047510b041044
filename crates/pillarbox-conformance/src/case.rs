//! One case: its name, what it needs, and how it is run.

use std::fmt;
use std::time::Duration;

use pillarbox::port::{AnyTable, StoreError};
use tokio::task::JoinSet;

use crate::harness::{Fixture, Harness, Later};

/// A case that takes longer than this hangs: a store may wait for a lock for some seconds, not for minutes.
const LONGEST: Duration = Duration::from_secs(300);

/// What a case needs of a store, beyond what every store must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Every store can run it.
    Nothing,
    /// Events in one transaction with business rows.
    Transactions,
    /// Two transactions that write at once.
    ConcurrentWriters,
    /// Tables, which can be missing.
    Tables,
    /// Joins of messages of the queue.
    Joins,
    /// Nothing, of a table of either kind: those above need the native table.
    AnyKind,
    /// A table of another program: the flowcatalyst layout.
    Items,
    /// That, and events in one transaction with business rows.
    ItemTransactions,
}

impl Need {
    /// Why a case with this need does not apply to a store; an error if the harness owes it.
    fn lacking(self, fixture: &Fixture) -> Result<Option<&'static str>, &'static str> {
        let facts = fixture.store.facts();
        match (self, &fixture.store) {
            (Self::AnyKind, _) | (Self::Items, AnyTable::Items(_)) => return Ok(None),
            (Self::Items | Self::ItemTransactions, AnyTable::Native(_)) => {
                return Ok(Some("it is the native table"));
            }
            (Self::ItemTransactions, AnyTable::Items(_)) | (_, AnyTable::Native(_)) => {}
            (_, AnyTable::Items(_)) => return Ok(Some("its rows have no numbers")),
        }
        let (stated, brought, why) = match self {
            Self::Nothing | Self::AnyKind | Self::Items => (true, true, ""),
            Self::Transactions | Self::ItemTransactions => {
                (facts.transactions, fixture.transactions.is_some(), "it has no transactions")
            }
            Self::ConcurrentWriters => {
                (facts.concurrent_writers, fixture.open.is_some(), "it has one writer at a time")
            }
            Self::Joins => (
                fixture.store.native().is_some_and(|store| store.joins().is_some()),
                fixture.transactions.is_some(),
                "it has no joins, which need transactions",
            ),
            Self::Tables => (facts.durable, fixture.bare.is_some(), "it has no tables that could be missing"),
        };
        match (stated, brought) {
            (true, true) => Ok(None),
            (true, false) => Err("its facts promise what its harness does not bring"),
            (false, _) => Ok(Some(why)),
        }
    }
}

/// Why a case ended before its end.
#[derive(Debug)]
pub(crate) enum Halt {
    Store(StoreError),
    NotApplicable(&'static str),
}

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// What a case's function answers; a failed assertion panics.
pub(crate) type Checked = Result<(), Halt>;

/// One thing that a store must do.
#[derive(Clone, Copy)]
pub struct Case {
    /// The topic it belongs to.
    pub topic: &'static str,
    /// What must hold, as a sentence.
    pub name: &'static str,
    /// To which stores it applies.
    pub need: Need,
    pub(crate) body: fn(Fixture) -> Later<'static, Checked>,
}

impl Case {
    /// Why it does not apply to a store, by any outbox of it: nothing need be made to tell so.
    #[must_use]
    pub fn lacks(&self, fixture: &Fixture) -> Option<&'static str> {
        self.need.lacking(fixture).ok().flatten()
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.topic, self.name)
    }
}

/// How a case came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaseOutcome {
    /// It holds.
    Passed,
    /// It does not hold, and how that showed.
    Failed(String),
    /// It does not apply to this store, and why.
    NotApplicable(String),
    /// The store could not be tried here, and why.
    CouldNotRun(String),
}

/// Tries one case on an outbox of its own. Needs a runtime with timers and more than one thread.
pub async fn run(case: &Case, harness: &dyn Harness) -> CaseOutcome {
    let fixture = match harness.fresh().await {
        Ok(fixture) => fixture,
        Err(reason) => return CaseOutcome::CouldNotRun(reason),
    };
    match case.need.lacking(&fixture) {
        Ok(None) => {}
        Ok(Some(why)) => return CaseOutcome::NotApplicable(why.to_owned()),
        Err(why) => return CaseOutcome::Failed(why.to_owned()),
    }
    // In a task of its own, so that a failed assertion is an outcome and not the end of the run.
    let mut task = JoinSet::new();
    task.spawn((case.body)(fixture));
    match tokio::time::timeout(LONGEST, task.join_next()).await {
        Ok(Some(Ok(Ok(())))) => CaseOutcome::Passed,
        Ok(Some(Ok(Err(Halt::NotApplicable(why))))) => CaseOutcome::NotApplicable(why.to_owned()),
        Ok(Some(Ok(Err(Halt::Store(error))))) => CaseOutcome::Failed(format!("{error:?}")),
        Ok(Some(Err(broken))) => CaseOutcome::Failed(panic_text(broken)),
        Ok(None) => CaseOutcome::Failed("the case did not run".to_owned()),
        Err(_) => CaseOutcome::Failed(format!("it did not end within {LONGEST:?}")),
    }
}

fn panic_text(broken: tokio::task::JoinError) -> String {
    let Ok(payload) = broken.try_into_panic() else { return "the case was cancelled".to_owned() };
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "the case panicked".to_owned())
}

/// Lists the cases of a topic: `cases!("settle"; Nothing: a, b; Transactions: c)`.
macro_rules! cases {
    ($topic:literal; $($need:ident: $($name:ident),+ $(,)?);+ $(;)?) => {
        vec![$($($crate::case::Case {
            topic: $topic,
            name: stringify!($name),
            need: $crate::case::Need::$need,
            body: |fixture| Box::pin($name(fixture)),
        }),+),+]
    };
}
pub(crate) use cases;
