//! Pillarbox with its defaults: the outbox, the ordered outbox and the queue.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::model::EventBuilder;
use pillarbox::port::{Begin, OnDone, Table};
use pillarbox::queue::{Message, Worker};
use pillarbox::{Event, Failure, Outbox, Queue};
use pillarbox_postgres::sqlx::postgres::{PgConnection, PgPool, PgPoolOptions};
use pillarbox_postgres::sqlx::query;
use pillarbox_postgres::{Pooler, PostgresStore};

use super::protocol::{CONNECTIONS, Content, Handled, Load, NOTE, ORDER, Peer, payload, url};
use crate::database::{self, MEASURED, add_by_store};

const GROUPS: usize = 100;
/// Several nodes have no default: a program must choose.
const LEASE: Duration = Duration::from_secs(30);

/// What of Pillarbox is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Outbox,
    Ordered,
    Queue,
}

enum Consumer {
    None,
    Outbox(Outbox<PostgresStore>),
    Queue(Queue<PostgresStore>, #[expect(dead_code, reason = "it works until it is dropped")] Worker),
}

/// One contender of ours.
pub(super) struct Ours {
    kind: Kind,
    on_done: OnDone,
    pool: PgPool,
    payload: String,
    consumer: Consumer,
}

impl Ours {
    pub(super) async fn open(kind: Kind, on_done: OnDone) -> anyhow::Result<Self> {
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS).test_before_acquire(false);
        let pool = pool.connect(&url()?).await?;
        Ok(Self { kind, on_done, pool, payload: payload()?, consumer: Consumer::None })
    }

    fn store(&self) -> PostgresStore {
        PostgresStore::builder(self.pool.clone()).pooler(Pooler::None).open()
    }

    fn event(&self, account: i64) -> EventBuilder {
        let event = Event::text(MEASURED, self.payload.clone());
        if self.kind == Kind::Ordered { event.group(format!("group {account}")) } else { event }
    }
}

async fn order(connection: &mut PgConnection, account: i64, content: Content) -> anyhow::Result<()> {
    if content.has_business() {
        query(ORDER).bind(account).bind(1_i64).bind(NOTE).execute(connection).await?;
    }
    Ok(())
}

impl Peer for Ours {
    async fn migrate(&mut self) -> anyhow::Result<()> {
        self.store().admin().migrate().await?;
        Ok(())
    }

    async fn fill(&mut self, jobs: usize) -> anyhow::Result<()> {
        let kind = match self.kind {
            Kind::Outbox => database::Kind::Lane,
            Kind::Ordered => database::Kind::Groups(GROUPS),
            Kind::Queue => database::Kind::Queue,
        };
        add_by_store(&self.store(), jobs, kind).await
    }

    async fn connect(&mut self) -> anyhow::Result<()> {
        query("SELECT 1").execute(&self.pool).await?;
        Ok(())
    }

    async fn start(&mut self, handled: Arc<Handled>, _: Load) -> anyhow::Result<()> {
        let store = self.store();
        let builder = match self.kind {
            Kind::Outbox => Outbox::multi_node(store).lease(LEASE),
            Kind::Ordered => Outbox::ordered(store),
            Kind::Queue => {
                let queue = Queue::new(store).on_done(self.on_done);
                let handler = move |_: Message| {
                    handled.job();
                    std::future::ready(Ok::<(), Failure>(()))
                };
                let worker = queue.worker().handler(MEASURED, handler).start()?;
                self.consumer = Consumer::Queue(queue, worker);
                return Ok(());
            }
        };
        let listener = move |_: Event| {
            handled.job();
            std::future::ready(Ok::<(), Failure>(()))
        };
        let outbox = builder.listener(MEASURED, listener).on_done(self.on_done).start().await?;
        self.consumer = Consumer::Outbox(outbox);
        Ok(())
    }

    async fn transact(&self, account: i64, content: Content) -> anyhow::Result<()> {
        match &self.consumer {
            Consumer::None => {
                let mut tx = self.pool.begin().await?;
                order(&mut tx, account, content).await?;
                Ok(tx.commit().await?)
            }
            Consumer::Outbox(outbox) => {
                let mut tx = outbox.begin().await?;
                order(&mut tx, account, content).await?;
                tx.write(self.event(account))?;
                Ok(tx.commit().await?)
            }
            Consumer::Queue(queue, _) => {
                let mut tx = queue.store().begin().await?;
                order(&mut tx, account, content).await?;
                queue.enqueue_on(&mut tx, [self.event(account)]).await?;
                queue.store().commit(tx).await?;
                queue.committed();
                Ok(())
            }
        }
    }
}
