//! What a read costs the server, by how much is waiting and how much is done.

use pillarbox::model::{Slot, SlotSet};
use pillarbox::port::{Cursor, Fetch, Scope, Store};
use pillarbox_postgres::{PostgresStore, PostgresWakeUp};

use super::Sizes;
use super::fixture::Fixture;
use super::server::backends_cpu;
use crate::database::Kind;
use crate::figure::{Figure, Goal, Samples};

/// A table in some state, and reads of it.
struct Table {
    name: String,
    fixture: Fixture,
    store: PostgresStore,
    nothing: Samples,
    one: Samples,
    page: Samples,
}

impl Table {
    async fn new(url: &str, name: String, pending: usize, done: usize) -> anyhow::Result<Self> {
        let fixture = Fixture::new(url).await?;
        // Done rows lie before and between those that wait, as they do in an outbox that keeps them.
        fixture.fill_done(done / 2).await?;
        fixture.fill(pending, Kind::Lane).await?;
        fixture.fill_done(done - done / 2).await?;
        fixture.calm().await?;
        let store = fixture.store(1, PostgresWakeUp::Off).await?;
        let (nothing, one, page) = (Samples::default(), Samples::default(), Samples::default());
        Ok(Self { name, fixture, store, nothing, one, page })
    }

    async fn round(&mut self) -> anyhow::Result<()> {
        let end = self.end().await?;
        self.nothing.push(self.read(end, 1_000, 200).await?);
        self.one.push(self.read(Cursor::default(), 1, 200).await?);
        self.page.push(self.read(Cursor::default(), 1_000, 20).await?);
        Ok(())
    }

    /// A cursor behind everything that is there, with a horizon as an idle reader has it.
    async fn end(&self) -> anyhow::Result<Cursor> {
        let mut cursor = Cursor::default();
        loop {
            let fetched = self.store.fetch(request(cursor, 50_000)).await?;
            cursor = fetched.cursor;
            if fetched.rows.is_empty() {
                return Ok(cursor);
            }
        }
    }

    /// Microseconds of the server for one read.
    async fn read(&self, cursor: Cursor, rows: usize, times: u32) -> anyhow::Result<f64> {
        self.store.fetch(request(cursor.clone(), rows)).await?;
        let before = backends_cpu(self.fixture.admin(), self.fixture.schema()).await?;
        for _ in 0..times {
            self.store.fetch(request(cursor.clone(), rows)).await?;
        }
        let spent = backends_cpu(self.fixture.admin(), self.fixture.schema()).await? - before;
        Ok((spent / times).as_secs_f64() * 1e6)
    }
}

fn request(cursor: Cursor, rows: usize) -> Fetch {
    let slots = SlotSet::new((0..=64).map(Slot));
    Fetch {
        scope: Scope::Slots { slots, cursor },
        rows,
        bytes: pillarbox::port::ByteLimits::NONE,
        skip_recent: std::time::Duration::ZERO,
        now: None,
    }
}

pub(super) async fn measure(url: &str, sizes: &Sizes) -> anyhow::Result<Vec<Figure>> {
    let done = sizes.done;
    let states = [
        ("empty".to_owned(), 0, 0),
        ("1000 pending".to_owned(), 1_000, 0),
        ("100000 pending".to_owned(), 100_000, 0),
        ("1000000 pending".to_owned(), 1_000_000, 0),
        (format!("1000 pending, {done} done"), 1_000, done),
    ];
    let mut tables = Vec::new();
    for (name, pending, done) in states {
        tables.push(Table::new(url, name, pending, done).await?);
    }
    for _ in 0..sizes.rounds {
        for table in &mut tables {
            table.round().await?;
        }
    }
    let mut figures = Vec::new();
    if let [empty, few, others @ ..] = tables.as_slice() {
        for table in others {
            let what = |rows, base| format!("fetch of {rows}, {}, against {base}", table.name);
            let goal = Goal::AtMost(1.5);
            let unit = "µs of server";
            let nothing = what("nothing new", "an empty table");
            figures.push(Figure::ratio(nothing, unit, &table.nothing, &empty.nothing, goal));
            figures.push(Figure::ratio(what("1 row", &few.name), unit, &table.one, &few.one, goal));
            figures.push(Figure::ratio(what("1000 rows", &few.name), unit, &table.page, &few.page, goal));
        }
    }
    for table in tables {
        table.store.close().await;
        table.store.pool().close().await;
        drop(table.store);
        table.fixture.remove().await?;
    }
    Ok(figures)
}
