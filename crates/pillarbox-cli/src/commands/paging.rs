//! Reads lists page by page, so that at most one page of payloads is in memory.

use clap::{Args, ValueEnum};
use pillarbox::model::{EventId, Seq};
use pillarbox::port::{Contents, List, PageOrder, Select, Table};
use pillarbox_terminal::error::CommandResult;

use crate::view::Summary;

/// Rows per page. It is small because a row includes its payload, of up to 1 MiB.
const PAGE: usize = 100;
const LIMIT_MAX: i64 = 100_000;

/// The order by sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    // Oldest first
    Oldest,
    // Newest first
    Newest,
}

/// The limit of a list.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Limit {
    /// Show at most this many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=LIMIT_MAX as u64))]
    pub(crate) limit: u64,
}

/// Reads at most `limit` events in order.
pub(crate) async fn read(
    store: &dyn Table,
    select: Select,
    order: Order,
    limit: u64,
) -> CommandResult<Vec<Summary>> {
    let order = match order {
        Order::Oldest => PageOrder::OldestFirst,
        Order::Newest => PageOrder::NewestFirst,
    };
    let mut events: Vec<Summary> = Vec::new();
    loop {
        let wanted = limit.saturating_sub(events.len() as u64).min(PAGE as u64) as usize;
        if wanted == 0 {
            return Ok(events);
        }
        let after = events.last().map(|event| Seq(event.seq));
        let after_id = events.last().map(|event| EventId::from_row(event.id.as_str()));
        let select = select.clone();
        let list = List { select, order, after, after_id, limit: wanted, contents: Contents::Whole };
        let page = store.admin().list(list).await?;
        events.extend(page.iter().map(Summary::from));
        if page.len() < wanted {
            return Ok(events);
        }
    }
}
