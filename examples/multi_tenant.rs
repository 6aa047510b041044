//! A database for each tenant: messages go to their tenant's, one worker works for all, tenants come and go. OBX-204
#![expect(clippy::print_stdout, reason = "an example tells people what happens")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use pillarbox::Event;
use pillarbox::port::{Admin, ErrorKind, StoreError, StoreFuture};
use pillarbox::queue::{Database, Databases, Discovery, Message};
use pillarbox_sqlite::SqliteStore;
use tokio::sync::mpsc;

/// Every file in a folder is a tenant's database.
struct Tenants(PathBuf);

impl Discovery for Tenants {
    fn discover(&self) -> StoreFuture<'_, Vec<Database>> {
        Box::pin(async {
            let unreadable = |error: std::io::Error| {
                StoreError::new(ErrorKind::Unavailable, "discover", "tenants", "the folder can't be read")
                    .with_source(error)
            };
            let mut found = Vec::new();
            for file in std::fs::read_dir(&self.0).map_err(unreadable)? {
                let path = file.map_err(unreadable)?.path();
                if path.extension().is_some_and(|extension| extension == "db") {
                    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                    found.push(Database::new(name, format!("sqlite:{}", path.display())));
                }
            }
            Ok(found)
        })
    }
}

async fn add_tenant(folder: &Path, name: &str) -> anyhow::Result<()> {
    SqliteStore::open(folder.join(format!("{name}.db")))?.migrate().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    run(folder.path()).await.map(drop)
}

/// How many orders of each tenant were handled.
async fn run(folder: &Path) -> anyhow::Result<BTreeMap<String, u32>> {
    for tenant in ["acme", "globex"] {
        add_tenant(folder, tenant).await?;
    }
    // Connections are made when a tenant is used, and let go of when it has been idle.
    let tenants = Databases::discovered_every(
        Duration::from_millis(100),
        Tenants(folder.to_owned()),
        |database: Database| async move { SqliteStore::open_url(&database.url) },
    );
    tenants.refresh().await?;
    let (handled, mut orders) = mpsc::channel(16);
    let worker = tenants
        .worker()
        .poll_interval(Duration::from_millis(50))
        .handler("order.created", move |message: Message| {
            let handled = handled.clone();
            async move { Ok(handled.send(message.event().json_as::<String>()?).await?) }
        })
        .start()?;

    for tenant in ["acme", "globex", "acme"] {
        create_order(&tenants, tenant).await?;
    }
    let unknown = create_order(&tenants, "initech").await;
    println!("initech: {}", unknown.err().context("nobody knows this tenant yet")?);
    add_tenant(folder, "initech").await?;
    // A new tenant is known after the next look for tenants.
    tenants.refresh().await?;
    create_order(&tenants, "initech").await?;

    let mut counts = BTreeMap::new();
    for _ in 0..4 {
        let tenant = orders.recv().await.context("the worker has gone")?;
        println!("{tenant}: an order was handled");
        *counts.entry(tenant).or_default() += 1;
    }
    worker.close().await;
    Ok(counts)
}

/// What a service does: the key of the tenant leads to its queue.
async fn create_order(tenants: &Databases<SqliteStore>, tenant: &str) -> anyhow::Result<()> {
    let queue = tenants.queue(tenant).await?;
    queue.enqueue(Event::json("order.created", tenant)?.correlation_id(tenant)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OBX-204, OBX-072, OBX-073, OBX-077
    #[tokio::test]
    async fn every_tenants_orders_are_handled() {
        let folder = tempfile::tempdir().unwrap();
        let counts = run(folder.path()).await.unwrap();
        let expected =
            [("acme", 2), ("globex", 1), ("initech", 1)].map(|(name, count)| (name.to_owned(), count));
        assert_eq!(counts, BTreeMap::from(expected));
    }
}
