//! The scenarios of an adapter in Rust; `bench/peers/README.md` has the protocol.

use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Writes the order of a business transaction.
pub(crate) const ORDER: &str = "INSERT INTO orders (account_id, amount, note) VALUES ($1, $2, $3)";
/// What an order says.
pub(crate) const NOTE: &str = "a note of some length, as orders have them";
/// The connections that an adapter may open for its writers.
pub(crate) const CONNECTIONS: u32 = 40;
/// Transactions of each writer before the clock starts.
const WARM: usize = 5;
/// Jobs before the first whose latency counts.
const WARM_LATENCIES: usize = 25;
/// The pause between two jobs of the latency.
const PAUSE: Duration = Duration::from_millis(3);

/// What a transaction writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    Business,
    Job,
    BusinessAndJob,
}

impl Content {
    pub(crate) fn has_business(self) -> bool {
        self != Self::Job
    }

    pub(crate) fn has_job(self) -> bool {
        self != Self::Business
    }
}

/// What a consumer has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// To work off a backlog.
    Backlog,
    /// To handle single jobs as soon as possible.
    Single,
    /// To keep up with writers.
    Writers,
}

/// A contender.
pub(crate) trait Peer: Send + Sync + Sized + 'static {
    /// Creates its tables.
    fn migrate(&mut self) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Adds jobs by its bulk path.
    fn fill(&mut self, jobs: usize) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Opens a connection, as far as that is possible before the start.
    fn connect(&mut self) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Starts the consumer.
    fn start(&mut self, handled: Arc<Handled>, load: Load)
    -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Commits one transaction.
    fn transact(&self, account: i64, content: Content) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// Counts the calls of the handler.
pub(crate) struct Handled {
    count: AtomicUsize,
    wanted: usize,
    calls: Option<mpsc::Sender<Instant>>,
}

impl Handled {
    /// Notes a call.
    pub(crate) fn job(&self) {
        if self.count.fetch_add(1, Ordering::Relaxed) + 1 == self.wanted {
            // Without a reader there is nobody to tell.
            let _ = tell("handled");
        }
        if let Some(calls) = &self.calls {
            // One job is on its way at a time.
            let _ = calls.try_send(Instant::now());
        }
    }
}

/// The URL of the database.
pub(crate) fn url() -> anyhow::Result<String> {
    Ok(std::env::var("PEER_URL")?)
}

/// The payload of every job, as JSON.
pub(crate) fn payload() -> anyhow::Result<String> {
    Ok(std::env::var("PEER_PAYLOAD")?)
}

fn tell(line: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{line}")?;
    output.flush()
}

async fn hear(word: &'static str) -> anyhow::Result<()> {
    let heard = tokio::task::spawn_blocking(|| io::stdin().lock().lines().next());
    let line = heard.await?.transpose()?;
    anyhow::ensure!(line.as_deref() == Some(word), "expected {word}, not {line:?}");
    Ok(())
}

/// Runs the scenario of these arguments.
pub(crate) async fn run(mut peer: impl Peer, arguments: &[String]) -> anyhow::Result<()> {
    let number = |place: usize| arguments.get(place).map_or(Ok(0), |number| number.parse::<usize>());
    let scenario = arguments.first().map(String::as_str).unwrap_or_default();
    if matches!(scenario, "fill" | "latency" | "end-to-end") {
        peer.migrate().await?;
    }
    if scenario == "fill" {
        return peer.fill(number(1)?).await;
    }
    peer.connect().await?;
    tell("ready")?;
    hear("go").await?;
    let (sender, mut calls) = mpsc::channel(1);
    let wanted = std::env::var("PEER_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(0);
    let calls_of = (scenario == "latency").then_some(sender);
    let handled = Arc::new(Handled { count: AtomicUsize::new(0), wanted, calls: calls_of });
    match scenario {
        "drain" => peer.start(handled, Load::Backlog).await?,
        "latency" => peer.start(handled, Load::Single).await?,
        "end-to-end" => peer.start(handled, Load::Writers).await?,
        "business" => {}
        _ => anyhow::bail!("unknown scenario {scenario}"),
    }
    let peer = Arc::new(peer);
    match scenario {
        "latency" => latencies(&*peer, &mut calls, number(1)?).await?,
        "end-to-end" => write(&peer, number(1)?, number(2)?, Content::BusinessAndJob).await?,
        "business" => write(&peer, number(1)?, number(2)?, Content::Business).await?,
        _ => {}
    }
    hear("stop").await
}

async fn latencies(
    peer: &impl Peer,
    calls: &mut mpsc::Receiver<Instant>,
    wanted: usize,
) -> anyhow::Result<()> {
    for number in 0..wanted + WARM_LATENCIES {
        peer.transact(0, Content::Job).await?;
        let committed = Instant::now();
        let called = calls.recv().await.ok_or_else(|| anyhow::anyhow!("the consumer ended"))?;
        if number >= WARM_LATENCIES {
            tell(&format!("latency {}", called.saturating_duration_since(committed).as_micros()))?;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(tell("done")?)
}

async fn write<P: Peer>(
    peer: &Arc<P>,
    writers: usize,
    millis: usize,
    content: Content,
) -> anyhow::Result<()> {
    each(peer, writers, move |peer, account| async move {
        for _ in 0..WARM {
            peer.transact(account, content).await?;
        }
        Ok(WARM)
    })
    .await?;
    let began = Instant::now();
    let window = Duration::from_millis(millis as u64);
    let transactions = each(peer, writers, move |peer, account| async move {
        let mut count = 0;
        while began.elapsed() < window {
            peer.transact(account, content).await?;
            count += 1;
        }
        Ok(count)
    })
    .await?;
    Ok(tell(&format!("committed {transactions} {}", began.elapsed().as_micros()))?)
}

/// Runs so many writers at once; the sum of what they did.
async fn each<P: Peer, F>(
    peer: &Arc<P>,
    writers: usize,
    repeat: impl Fn(Arc<P>, i64) -> F,
) -> anyhow::Result<usize>
where
    F: Future<Output = anyhow::Result<usize>> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for writer in 0..writers {
        tasks.spawn(repeat(Arc::clone(peer), writer as i64));
    }
    let mut all = 0;
    while let Some(done) = tasks.join_next().await {
        all += done??;
    }
    Ok(all)
}
