//! Writing on something that is no transaction of this store.

use pillarbox::memory::MemoryStore;
use pillarbox::{Event, Writer};

async fn place_order(writer: &Writer<MemoryStore>, connection: &mut String) {
    let _ = writer.write_on(connection, [Event::text("order.placed", "{}")]).await;
}

fn main() {}
