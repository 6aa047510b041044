//! Writing without a transaction: an outbox has no `write`.

use pillarbox::memory::MemoryStore;
use pillarbox::{Event, Outbox};

fn place_order(outbox: &Outbox<MemoryStore>) {
    outbox.write(Event::text("order.placed", "{}"));
}

fn main() {}
