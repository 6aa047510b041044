//! What many nodes on one outbox cost the server for each event, beside one node.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pillarbox::Outbox;
use pillarbox::port::OnDone;
use pillarbox_postgres::sqlx::{AssertSqlSafe, query_scalar};
use pillarbox_postgres::{PostgresStore, PostgresWakeUp};

use super::Sizes;
use super::fixture::Fixture;
use super::server::Server;
use crate::database::{Arrivals, Kind, MEASURED};
use crate::figure::{Figure, Goal, Samples};

const MANY: usize = 16;
const GROUPS: usize = 1_000;
/// Nodes that don't agree by then never will.
const AGREED: Duration = Duration::from_secs(60);

/// Nodes on one outbox.
struct Fleet {
    fixture: Fixture,
    nodes: Vec<Outbox<PostgresStore>>,
    arrivals: Arc<Arrivals>,
    cpu_us: Samples,
    rate: Samples,
}

impl Fleet {
    async fn new(url: &str, nodes: usize) -> anyhow::Result<Self> {
        let fixture = Fixture::new(url).await?;
        let arrivals = Arc::new(Arrivals::default());
        let mut fleet = Self {
            fixture,
            nodes: Vec::new(),
            arrivals,
            cpu_us: Samples::default(),
            rate: Samples::default(),
        };
        for _ in 0..nodes {
            let builder = Outbox::ordered(fleet.fixture.store(1, PostgresWakeUp::Notify).await?)
                .on_done(OnDone::Delete);
            let builder = builder.listener(MEASURED, fleet.arrivals.listener());
            fleet.nodes.push(builder.no_purge().start().await?);
        }
        fleet.agree().await?;
        Ok(fleet)
    }

    /// Waits until every node holds its share.
    async fn agree(&self) -> anyhow::Result<()> {
        let until = Instant::now() + AGREED;
        let schema = self.fixture.schema();
        let sql = format!(
            "SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM {schema}.outbox_slot WHERE slot < 64 GROUP BY holder) h"
        );
        let share = 64_usize.div_ceil(self.nodes.len());
        loop {
            let most: i64 = query_scalar(AssertSqlSafe(sql.clone())).fetch_one(self.fixture.admin()).await?;
            if usize::try_from(most)? <= share {
                return Ok(());
            }
            anyhow::ensure!(Instant::now() < until, "the nodes did not agree on their shares");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Drains a backlog with all nodes.
    async fn round(&mut self, events: usize) -> anyhow::Result<()> {
        self.fixture.calm().await?;
        let server = Server::find(self.fixture.admin()).await?;
        self.arrivals.expect(events);
        // The nodes are looking all the time: they see the rows when the clock runs, not before.
        let filled = self.fixture.fill_open(events, Kind::Groups(GROUPS)).await?;
        let (began, before) = (Instant::now(), server.cpu()?);
        filled.commit().await?;
        self.fixture.notify().await?;
        self.arrivals.all().await?;
        self.fixture.settled(0).await?;
        self.cpu_us.push((server.cpu()? - before).as_secs_f64() * 1e6 / events as f64);
        self.rate.push(events as f64 / began.elapsed().as_secs_f64());
        Ok(())
    }

    async fn end(self) -> anyhow::Result<()> {
        for node in &self.nodes {
            node.close().await;
            node.store().pool().close().await;
        }
        drop(self.nodes);
        self.fixture.remove().await
    }
}

pub(super) async fn measure(url: &str, sizes: &Sizes) -> anyhow::Result<Vec<Figure>> {
    let (mut one, mut many) = (Fleet::new(url, 1).await?, Fleet::new(url, MANY).await?);
    for _ in 0..sizes.rounds {
        one.round(sizes.backlog).await?;
        many.round(sizes.backlog).await?;
    }
    let goal = Goal::AtMost(1.4);
    let what = format!("server CPU per event drained by {MANY} nodes, against one");
    let figures = vec![
        Figure::ratio(what, "µs", &many.cpu_us, &one.cpu_us, goal),
        Figure::ratio(format!("rate of {MANY} nodes, against one"), "/s", &many.rate, &one.rate, Goal::None),
    ];
    one.end().await?;
    many.end().await?;
    Ok(figures)
}
