//! Bare commands that read in order and delete.

use pillarbox_mongodb::mongodb::Collection;
use pillarbox_mongodb::mongodb::bson::{Bson, Document, doc};

use crate::database::{Reader, Reads};

/// One connection.
pub(crate) struct Bare {
    events: Collection<Document>,
    reads: Reads,
    after: i64,
}

impl Bare {
    pub(super) fn new(events: Collection<Document>, reads: Reads) -> Self {
        Self { events, reads, after: 0 }
    }
}

impl Reader for Bare {
    async fn next(&mut self, rows: usize) -> anyhow::Result<usize> {
        let pending = doc! { "status": { "$in": [0, 2] }, "seq": { "$gt": self.after } };
        let limit = i64::try_from(rows)?;
        let found =
            self.events.find(pending).sort(doc! { "seq": 1 }).limit(limit).batch_size(u32::try_from(rows)?);
        let mut cursor = found.await?;
        let mut ids = Vec::with_capacity(rows);
        while cursor.advance().await? {
            let event = cursor.deserialize_current()?;
            if self.reads == Reads::Onwards {
                self.after = event.get_i64("seq")?;
            }
            ids.push(event.get("_id").cloned().unwrap_or(Bson::Null));
            std::hint::black_box(event);
        }
        let read = ids.len();
        if read > 0 {
            self.events.delete_many(doc! { "_id": { "$in": ids }, "status": { "$in": [0, 2] } }).await?;
        }
        Ok(read)
    }
}
