//! Ten thousand rows, fewer on MongoDB's wire, and six claimers on every native table: a test each, which prints the rate.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use pillarbox::Event;
use pillarbox::model::{EventId, NewRow, OwnerId, Placement, Row, Status};
use pillarbox::port::{
    Change, Claim, ClaimFrom, Fence, OnDone, Outcome, Select, Settle, Store, StoreError, Table, Write,
};
use pillarbox_conformance::{Fixture, Harness, native};
use tokio::task::JoinSet;

mod harness;

const ROWS: usize = 10_000;
/// MongoDB's wire takes several round trips a call where SQL takes one.
const WIRE_ROWS: usize = 1_500;
const CLAIMERS: usize = 6;
const BATCH: usize = 100;
const PAGE: usize = 500;
/// No claim may run out, however slow the machine is.
const LEASE: Duration = Duration::from_secs(60 * 60);
/// How often outcomes are settled that are busy.
const SETTLES: usize = 10_000;
/// A claim that lost its rows to another claimer is empty; so many in a row mean that there are none.
const EMPTY_CLAIMS: usize = 1_000;
const ATTEMPTS: usize = 100;
/// How the names of stores end whose rows a leader takes: nobody claims those.
const ITEMS: &str = "-flowcatalyst";

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Others beside it would be in the rate.
    arguments.test_threads = Some(1);
    let native = harness::all().into_iter().filter(|harness| !harness.name().ends_with(ITEMS));
    let trials = native.map(|harness| {
        let name = format!("{}::every_row_is_had_by_one_of_six_claimers", harness.name());
        Trial::ignorable_test(name, move || try_on(&*harness))
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

fn try_on(harness: &dyn Harness) -> Result<Completion, Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let fixture = match runtime.block_on(harness.fresh()) {
        Ok(fixture) => fixture,
        Err(reason) => {
            print(&format!("could not run: {}: {reason}", harness.name()));
            return Ok(Completion::ignored_with(format!("could not run: {reason}")));
        }
    };
    let rows = if fixture.store.facts().kind == "mongodb" { WIRE_ROWS } else { ROWS };
    let took = runtime.block_on(every_row_is_had_by_one_of_six_claimers(&fixture, rows))?;
    let rate = rows as f64 / took.as_secs_f64();
    let name = harness.name();
    print(&format!(
        "{name}: {rows} rows claimed and settled by {CLAIMERS} claimers: {rate:.0} rows a second"
    ));
    Ok(Completion::Completed)
}

/// OBX-098, OBX-101
async fn every_row_is_had_by_one_of_six_claimers(t: &Fixture, count: usize) -> Result<Duration, StoreError> {
    for page in 0..count / PAGE {
        let rows = (page * PAGE..(page + 1) * PAGE).map(row).collect();
        t.store.write(Write { rows, now: None }).await?;
    }
    let (began, claimed) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
    let mut claimers = JoinSet::new();
    for number in 0..CLAIMERS {
        let store = Arc::clone(native(if number % 2 == 0 { &t.store } else { &t.beside }));
        claimers.spawn(claim_and_settle(store, number, count, Arc::clone(&claimed)));
    }
    let shares: Vec<_> = claimers.join_all().await.into_iter().collect::<Result<_, _>>()?;
    let took = began.elapsed();
    let mut times: BTreeMap<EventId, usize> = BTreeMap::new();
    shares.concat().into_iter().for_each(|id| *times.entry(id).or_default() += 1);
    assert_eq!(times.values().filter(|times| **times > 1).count(), 0, "rows were claimed twice");
    assert_eq!(times.len(), count, "rows were not claimed");
    let done = Select { statuses: vec![Status::Done], ..Select::default() };
    assert_eq!(t.beside.admin().count(done).await?, count as u64);
    Ok(took)
}

fn row(number: usize) -> NewRow {
    let event = Event::text("order-placed", r#"{"amount":1}"#).id(format!("e{number:05}"));
    NewRow { event: event.build().expect("a valid event"), placement: Placement::Slot }
}

/// Claims until all rows are claimed by somebody; the ids of its own.
async fn claim_and_settle(
    store: Arc<dyn Store>,
    number: usize,
    count: usize,
    claimed: Arc<AtomicUsize>,
) -> Result<Vec<EventId>, StoreError> {
    let owner = OwnerId::new(format!("claimer {number}")).expect("a valid owner");
    let claim = Claim {
        topics: Arc::default(),
        from: ClaimFrom::Events,
        owner: owner.clone(),
        lease: LEASE,
        rows: BATCH,
        bytes: pillarbox::port::ByteLimits::NONE,
        skip_recent: Duration::ZERO,
        now: None,
    };
    let (mut mine, mut empty) = (Vec::new(), 0);
    while claimed.load(Ordering::Relaxed) < count && empty < EMPTY_CLAIMS {
        let rows = patiently(|| store.claim(claim.clone())).await?;
        if rows.is_empty() {
            empty += 1;
            tokio::task::yield_now().await;
            continue;
        }
        empty = 0;
        assert!(rows.len() <= BATCH, "{} rows", rows.len());
        assert!(rows.iter().all(|row| row.attempts == 1), "a row was tried before");
        claimed.fetch_add(rows.len(), Ordering::Relaxed);
        settle(&*store, &owner, rows.iter().map(done).collect()).await?;
        mine.extend(rows.into_iter().map(|row| row.id));
    }
    Ok(mine)
}

/// Settles; what other claimers have locked for a moment is settled again.
async fn settle(store: &dyn Table, owner: &OwnerId, mut outcomes: Vec<Outcome>) -> Result<(), StoreError> {
    for _ in 0..SETTLES {
        let settle = Settle {
            fence: Fence::Owner(owner.clone()),
            outcomes: outcomes.clone().into(),
            on_done: OnDone::Keep,
            repeats: None,
            now: None,
        };
        let settled = patiently(|| store.settle(settle.clone())).await?;
        assert_eq!(settled.stale, [] as [usize; 0], "a row was taken away");
        outcomes = settled.busy.iter().map(|place| outcomes[*place].clone()).collect();
        if outcomes.is_empty() {
            return Ok(());
        }
        tokio::task::yield_now().await;
    }
    panic!("{} rows stay locked by others", outcomes.len());
}

fn done(row: &Row) -> Outcome {
    Outcome { seq: row.seq, id: row.id.clone(), token: row.token, change: Change::Done }
}

/// Asks again what lost against another transaction.
async fn patiently<T, R>(call: impl Fn() -> R) -> Result<T, StoreError>
where
    R: Future<Output = Result<T, StoreError>>,
{
    for _ in 0..ATTEMPTS {
        match call().await {
            Err(error) if error.is_transient() => tokio::task::yield_now().await,
            answer => return answer,
        }
    }
    call().await
}

/// A caught write would be lost. On a line of its own: the summary of all tests reads what could not run.
fn print(line: &str) {
    let _ = writeln!(std::io::stdout(), "\n{line}");
}
