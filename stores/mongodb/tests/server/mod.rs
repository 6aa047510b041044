//! Outboxes of their own on a server that a variable names.
#![allow(dead_code, reason = "every file of tests uses a part of it")]
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic like tests do")]

use std::io::Write as _;

use pillarbox::Event;
use pillarbox::model::{NewRow, OwnerId, Placement, Slot, SlotSet};
use pillarbox::port::{Admin, Claim, ClaimFrom, Cursor, Fetch, Scope, Write};
use pillarbox_mongodb::MongodbStore;
use pillarbox_mongodb::mongodb::{Client, Database};
use std::time::Duration;
use uuid::Uuid;

pub(crate) mod mongod;

/// A server without transactions.
pub(crate) const FERRETDB: &str = "PILLARBOX_TEST_FERRETDB_URL";
/// A replica set of one.
pub(crate) const MONGODB: &str = "PILLARBOX_TEST_MONGODB_URL";
/// One of three.
pub(crate) const THREE: &str = "PILLARBOX_TEST_MONGODB_3_URL";

/// A line that the summary of all tests repeats.
pub(crate) fn say(line: &str) {
    writeln!(std::io::stdout().lock(), "{line}").unwrap();
}

/// A database of this test's own, dropped with it.
pub(crate) struct Site {
    pub(crate) client: Client,
    pub(crate) database: Database,
    pub(crate) store: MongodbStore,
}

impl Site {
    /// None, and a line that says so, where no server is named.
    pub(crate) async fn new(variable: &str) -> Option<Self> {
        Self::called(variable, "pillarbox").await
    }

    /// On every kind of server that is named.
    pub(crate) async fn each() -> Vec<Self> {
        let mut sites = Vec::new();
        for variable in [FERRETDB, MONGODB] {
            sites.extend(Self::new(variable).await);
        }
        sites
    }

    /// One whose client tells the server a name of its own.
    pub(crate) async fn called(variable: &str, name: &str) -> Option<Self> {
        let Ok(url) = std::env::var(variable) else {
            say(&format!("could not run: mongodb: {variable} is not set"));
            return None;
        };
        let joint = if url.contains('?') { '&' } else { '?' };
        Some(Self::at(&format!("{url}{joint}appName={name}")).await)
    }

    pub(crate) async fn at(url: &str) -> Self {
        let client = Client::with_uri_str(url).await.unwrap();
        let database = client.database(&format!("t_{}", Uuid::now_v7().simple()));
        let store = MongodbStore::new(database.clone()).await.unwrap();
        store.migrate().await.unwrap();
        Self { client, database, store }
    }

    /// Removes the database; what a failed test leaves is for people to look at.
    pub(crate) async fn remove(self) {
        self.store.close().await;
        self.database.drop().await.unwrap();
    }
}

pub(crate) fn rows(names: impl IntoIterator<Item = String>) -> Write {
    let row = |name: String| NewRow {
        event: Event::text("order-placed", "{}").id(name).build().unwrap(),
        placement: Placement::Slot,
    };
    Write { rows: names.into_iter().map(row).collect(), now: None }
}

pub(crate) fn read_from(cursor: Cursor) -> Fetch {
    let slots = SlotSet::new((0..96).map(Slot));
    Fetch {
        scope: Scope::Slots { slots, cursor },
        rows: 1_000,
        bytes: pillarbox::port::ByteLimits::NONE,
        skip_recent: Duration::ZERO,
        now: None,
    }
}

pub(crate) fn claim(owner: &str, rows: usize) -> Claim {
    Claim {
        topics: std::sync::Arc::default(),
        from: ClaimFrom::Events,
        owner: OwnerId::new(owner).unwrap(),
        lease: Duration::from_secs(60),
        rows,
        bytes: pillarbox::port::ByteLimits::NONE,
        skip_recent: Duration::ZERO,
        now: None,
    }
}
