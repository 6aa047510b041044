//! Databases of a test, sinks that remember, and a relay between them.

use std::io::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::Event;
use pillarbox::model::{Layout, NewRow, Payload, Placement, TableName};
use pillarbox::port::{AnyTable, Delivery, Handed, Sink, Verdict, Write};
use pillarbox_mongodb::mongodb::Client;
use pillarbox_postgres::sqlx::postgres::PgConnection;
use pillarbox_postgres::sqlx::{AssertSqlSafe, Connection, Executor};
use pillarbox_relay::config::{Input, RelayConfig, SinkConfig};
use pillarbox_relay::{Relay, RelayParts, Route, Sinks};
use pillarbox_stores::Options;
use tempfile::TempDir;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

/// Whatever is waited for has come by then, or never comes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
const SERVER: &str = "PILLARBOX_TEST_POSTGRES_URL";
/// A replica set of one.
const REPLICA_SET: &str = "PILLARBOX_TEST_MONGODB_URL";

/// A batch as the sink saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) route: Route,
    pub(crate) group: Option<String>,
    pub(crate) payloads: Vec<String>,
}

type Judge = dyn Fn(&Delivery) -> Verdict + Send + Sync;

/// Sinks that remember every batch, give verdicts as told, and can be held.
pub(crate) struct Recorder {
    seen: watch::Sender<Vec<Batch>>,
    judge: Box<Judge>,
    gate: Semaphore,
    out: Mutex<(usize, usize)>,
}

impl Recorder {
    pub(crate) fn new() -> Arc<Self> {
        Self::judging(|_| Verdict::Accepted)
    }

    pub(crate) fn judging(judge: impl Fn(&Delivery) -> Verdict + Send + Sync + 'static) -> Arc<Self> {
        let gate = Semaphore::new(Semaphore::MAX_PERMITS >> 1);
        Arc::new(Self {
            seen: watch::Sender::new(Vec::new()),
            judge: Box::new(judge),
            gate,
            out: Mutex::default(),
        })
    }

    /// One that never takes this payload.
    pub(crate) fn refusing(payload: String) -> Arc<Self> {
        Self::judging(move |delivery| match text(delivery) == payload {
            true => Verdict::Rejected { error: "never".to_owned() },
            false => Verdict::Accepted,
        })
    }

    /// One that lets a batch through for each permit that is added.
    pub(crate) fn gated() -> Arc<Self> {
        let gate = Semaphore::new(0);
        let judge = Box::new(|_: &Delivery| Verdict::Accepted);
        Arc::new(Self { seen: watch::Sender::new(Vec::new()), judge, gate, out: Mutex::default() })
    }

    pub(crate) fn let_through(&self, batches: usize) {
        self.gate.add_permits(batches);
    }

    /// Waits until so many batches are out, lets all through and has the relay end.
    pub(crate) async fn drain_by(&self, relay: &mut Relay, at_once: usize) {
        self.until(|seen| seen.len() == at_once).await;
        self.let_through(100);
        relay.until_empty().await;
        relay.close().await;
    }

    pub(crate) fn batches(&self) -> Vec<Batch> {
        self.seen.borrow().clone()
    }

    /// The payloads of a group, in the order they came.
    pub(crate) fn of_group(&self, group: &str) -> Vec<String> {
        let batches = self.batches();
        let own = batches.into_iter().filter(|batch| batch.group.as_deref() == Some(group));
        own.flat_map(|batch| batch.payloads).collect()
    }

    pub(crate) fn events(&self) -> usize {
        self.batches().iter().map(|batch| batch.payloads.len()).sum()
    }

    /// The most batches that were out at once.
    pub(crate) fn most_at_once(&self) -> usize {
        self.out.lock().unwrap().1
    }

    /// Waits until what was seen is so.
    pub(crate) async fn until(&self, is_so: impl Fn(&[Batch]) -> bool) {
        let mut seen = self.seen.subscribe();
        let waited = timeout(PATIENCE, seen.wait_for(|batches| is_so(batches))).await;
        waited.expect("it comes about").unwrap();
    }

    pub(crate) async fn until_events(&self, count: usize) {
        self.until(|seen| seen.iter().map(|batch| batch.payloads.len()).sum::<usize>() >= count).await;
    }
}

/// The payload of a delivery.
pub(crate) fn text(delivery: &Delivery) -> String {
    match delivery.event.payload() {
        Payload::Json(text) => text.to_string(),
        Payload::Bytes(_) => String::new(),
    }
}

/// A sink of a recorder, for one route.
struct Recording {
    recorder: Arc<Recorder>,
    route: Route,
}

impl Sink for Recording {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> Handed<'a> {
        Box::pin(async move {
            let seen = Batch {
                route: self.route,
                group: batch[0].event.message_group().map(str::to_owned),
                payloads: batch.iter().map(text).collect(),
            };
            let recorder = &self.recorder;
            {
                let mut out = recorder.out.lock().unwrap();
                out.0 += 1;
                out.1 = out.1.max(out.0);
            }
            recorder.seen.send_modify(|all| all.push(seen));
            recorder.gate.acquire().await.unwrap().forget();
            recorder.out.lock().unwrap().0 -= 1;
            // As brokers do: nothing behind the first failure is tried.
            let mut verdicts: Vec<Verdict> = Vec::new();
            for delivery in batch {
                if verdicts.last().is_none_or(|last| *last == Verdict::Accepted) {
                    verdicts.push((recorder.judge)(delivery));
                }
            }
            verdicts.resize(batch.len(), Verdict::Skipped);
            verdicts
        })
    }
}

/// The factory of a test.
pub(crate) struct Recorded(pub(crate) Arc<Recorder>);

impl Sinks for Recorded {
    fn open(&self, _: &SinkConfig, route: Route) -> Result<Arc<dyn Sink>, String> {
        Ok(Arc::new(Recording { recorder: Arc::clone(&self.0), route }))
    }
}

/// A database of a test's own; gone with it.
pub(crate) struct Fixture {
    pub(crate) url: String,
    pub(crate) schema: Option<String>,
    /// The database on MongoDB.
    database: Option<String>,
    _folder: TempDir,
}

/// The URL of a server; none, and a line that says so, where no server is named.
fn server(name: &str, variable: &str) -> Option<String> {
    let url = std::env::var(variable).ok();
    if url.is_none() {
        let why = format!("{variable} is not set; `cargo xtask test` starts a server");
        writeln!(std::io::stdout().lock(), "could not run: relay on {name}: {why}").unwrap();
    }
    url
}

impl Fixture {
    pub(crate) fn sqlite() -> Self {
        let folder = TempDir::new().unwrap();
        Self {
            url: format!("sqlite:{}", folder.path().join("outbox.db").display()),
            schema: None,
            database: None,
            _folder: folder,
        }
    }

    pub(crate) fn postgres() -> Option<Self> {
        server("postgres", SERVER).map(Self::on)
    }

    fn mongodb() -> Option<Self> {
        let url = server("mongodb", REPLICA_SET)?;
        let database = format!("relay_{}", uuid::Uuid::now_v7().simple());
        let url = url.replacen("/pillarbox?", &format!("/{database}?"), 1);
        assert!(url.contains(&database), "{REPLICA_SET} names no database `pillarbox`");
        Some(Self { url, schema: None, database: Some(database), _folder: TempDir::new().unwrap() })
    }

    /// A schema on a server of the test's own.
    pub(crate) fn on(url: String) -> Self {
        let schema = format!("relay_{}", uuid::Uuid::now_v7().simple());
        Self { url, schema: Some(schema), database: None, _folder: TempDir::new().unwrap() }
    }

    /// Every place that can be had.
    pub(crate) fn all() -> Vec<Self> {
        [Some(Self::sqlite()), Self::postgres(), Self::mongodb()].into_iter().flatten().collect()
    }

    /// Makes the tables, and opens one of them.
    pub(crate) async fn table(&self, layout: Layout, table: &str) -> AnyTable {
        let options = Options {
            table: TableName::new(table).unwrap(),
            layout: Some(layout),
            schema: self.schema.clone(),
            ..Options::default()
        };
        let store = pillarbox_stores::connect(&self.url, &options).await.unwrap();
        store.admin().migrate().await.unwrap();
        store
    }

    pub(crate) async fn native(&self) -> AnyTable {
        self.table(Layout::Native, "outbox_event").await
    }

    /// The flags that name it, and some more.
    pub(crate) fn flags(&self, more: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut flags = vec![("database-url".to_owned(), self.url.clone())];
        flags.extend(self.schema.clone().map(|schema| ("schema".to_owned(), schema)));
        let more = more.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        flags.extend([("api-base-url".to_owned(), "http://localhost:1".to_owned())].into_iter().chain(more));
        flags
    }

    /// Starts a relay that drains it.
    pub(crate) async fn relay(&self, recorder: &Arc<Recorder>, more: &[(&str, &str)]) -> Relay {
        start(Input { flags: self.flags(more), ..Input::default() }, recorder).await
    }

    async fn drop_schema(url: String, schema: String) {
        let mut connection = PgConnection::connect(&url).await.unwrap();
        connection.execute(AssertSqlSafe(format!("DROP SCHEMA IF EXISTS {schema} CASCADE"))).await.unwrap();
        connection.close().await.unwrap();
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let (url, schema, database) = (self.url.clone(), self.schema.take(), self.database.take());
        let dropping = async move {
            if let Some(schema) = schema {
                Self::drop_schema(url, schema).await;
            } else if let Some(database) = database {
                let client = Client::with_uri_str(url).await.unwrap();
                client.database(&database).drop().await.unwrap();
                client.shutdown().await;
            }
        };
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(dropping);
        });
        dropped.join().unwrap();
    }
}

pub(crate) async fn start(input: Input, recorder: &Arc<Recorder>) -> Relay {
    let config = RelayConfig::load(&input).unwrap_or_else(|problems| panic!("{problems}"));
    let sinks = Arc::new(Recorded(Arc::clone(recorder)));
    Relay::start(RelayParts { config, sinks }).await.unwrap()
}

/// Writes an event a payload, in one transaction.
pub(crate) async fn write(store: &AnyTable, group: Option<&str>, payloads: &[String]) {
    let event_type = if store.native().is_some() { "order.placed" } else { "EVENT" };
    write_as(store, event_type, group, payloads).await;
}

pub(crate) async fn write_as(
    store: &AnyTable,
    event_type: &'static str,
    group: Option<&str>,
    payloads: &[String],
) {
    let row = |payload: &String| {
        let mut builder = Event::text(event_type, payload.as_str());
        if let Some(group) = group {
            builder = builder.group(group);
        }
        NewRow { event: builder.build_within(&store.facts().limits).unwrap(), placement: Placement::Slot }
    };
    let rows = payloads.iter().map(row).collect();
    store.write(Write { rows, now: None }).await.unwrap();
}

/// Payloads that tell their order.
pub(crate) fn numbered(name: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!(r#"{{"group":"{name}","n":{n}}}"#)).collect()
}

/// How many rows have each status: new, done, retry, dead.
pub(crate) async fn statuses(store: &AnyTable) -> [u64; 4] {
    store.admin().stats().await.unwrap().by_status()
}
