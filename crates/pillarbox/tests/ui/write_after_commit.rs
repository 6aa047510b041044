//! Writing on a transaction that has ended.

use pillarbox::Event;
use pillarbox::events::Transaction;
use pillarbox::memory::MemoryStore;

async fn place_order(mut tx: Transaction<MemoryStore>) {
    let _ = tx.commit().await;
    let _ = tx.write(Event::text("order.placed", "{}"));
}

fn main() {}
