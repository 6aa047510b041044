//! One call: sends commands, all of them in the call's transaction if it has one.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use mongodb::ClientSession;
use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use mongodb::options::{AggregateOptions, FindOptions};
use tokio::time::Instant;

use crate::allocator;
use crate::error::DriverError;
use crate::outbox::{LAST, Names, Outbox, confirmed_document, pause};

/// The maximum number of statements in one command. Even with the longest errors it stays below the message
/// size limit.
const STATEMENTS: usize = 500;
/// The maximum number of documents and of their bytes in one insert command. The driver splits larger inserts into
/// several commands, and a failure would not show which of them failed.
const INSERTS: (usize, usize) = (50_000, 32 << 20);

/// The parameters of a read.
#[derive(Default, Clone)]
pub(crate) struct Find {
    pub(crate) filter: Document,
    pub(crate) sort: Option<Document>,
    pub(crate) fields: Option<Document>,
    /// Zero means no limit.
    pub(crate) limit: usize,
}

/// A call on an outbox, in a session if it has one.
pub(crate) struct Call<'s> {
    outbox: &'s Arc<Outbox>,
    session: Option<&'s mut ClientSession>,
    /// The time at which the store stops waiting for the call.
    deadline: Instant,
    /// The time limit that the server enforces on each write.
    limit: Duration,
    /// Which of its node's fence documents a settle writes.
    pub(crate) fence: usize,
    /// Draws for rows of its transaction. The rows appear with the commit.
    pub(crate) draws: Vec<u64>,
}

impl<'s> Call<'s> {
    pub(crate) fn new(outbox: &'s Arc<Outbox>, session: Option<&'s mut ClientSession>) -> Self {
        let (deadline, limit) = (outbox.deadline(), outbox.timeout);
        Self { outbox, session, deadline, limit, fence: 0, draws: Vec::new() }
    }

    /// Lowers the time limit of its writes.
    pub(crate) fn within(mut self, limit: Duration) -> Self {
        self.limit = self.limit.min(limit);
        self
    }

    /// A new call on the same outbox, outside of this call's transaction.
    pub(crate) fn beside(&self) -> Call<'s> {
        Call::new(self.outbox, None)
    }

    pub(crate) fn names(&self) -> &'s Names {
        &self.outbox.names
    }

    pub(crate) fn outbox(&self) -> &'s Arc<Outbox> {
        self.outbox
    }

    /// Whether the call's changes are atomic.
    pub(crate) fn in_transaction(&self) -> bool {
        self.session.is_some()
    }

    /// Pauses before the next attempt after a conflict; `tried` sets the length. Returns false if no time is
    /// left.
    pub(crate) async fn retry(&self, tried: u32) -> bool {
        let has_time = Instant::now() + LAST < self.deadline;
        if has_time {
            pause(tried).await;
        }
        has_time
    }

    /// Visits documents in order until the visitor breaks.
    pub(crate) async fn each(
        &mut self,
        collection: &str,
        find: Find,
        mut visit: impl FnMut(&RawDocument) -> ControlFlow<()> + Send,
    ) -> Result<(), DriverError> {
        let collection = self.outbox.raw(collection);
        let limit = i64::try_from(find.limit).ok().filter(|limit| (1..i64::from(i32::MAX)).contains(limit));
        let mut options = FindOptions::default();
        options.sort = find.sort;
        options.projection = find.fields;
        options.limit = limit;
        options.batch_size = limit.and_then(|limit| u32::try_from(limit + 1).ok());
        options.max_time = Some(self.outbox.timeout);
        match self.session.as_deref_mut() {
            None => {
                let mut cursor = collection.find(find.filter).with_options(options).await?;
                while cursor.advance().await? {
                    if visit(cursor.current()).is_break() {
                        break;
                    }
                }
            }
            Some(session) => {
                // The transaction's own read concern applies here.
                let found = collection.find(find.filter).with_options(options).session(&mut *session);
                let mut cursor = found.await?;
                while cursor.advance(session).await? {
                    if visit(cursor.current()).is_break() {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    pub(crate) async fn find(
        &mut self,
        collection: &str,
        find: Find,
    ) -> Result<Vec<RawDocumentBuf>, DriverError> {
        let mut found = Vec::new();
        let keep = |document: &RawDocument| {
            found.push(document.to_owned());
            ControlFlow::Continue(())
        };
        self.each(collection, find, keep).await?;
        Ok(found)
    }

    /// Finds the first matching document.
    pub(crate) async fn first(
        &mut self,
        collection: &str,
        find: Find,
    ) -> Result<Option<RawDocumentBuf>, DriverError> {
        Ok(self.find(collection, Find { limit: 1, ..find }).await?.pop())
    }

    pub(crate) async fn aggregate(
        &mut self,
        collection: &str,
        pipeline: Vec<Document>,
    ) -> Result<Vec<Document>, DriverError> {
        let collection = self.outbox.documents(collection);
        let mut options = AggregateOptions::default();
        options.max_time = Some(self.outbox.timeout);
        let aggregate = collection.aggregate(pipeline).with_options(options);
        let mut found = Vec::new();
        match self.session.as_deref_mut() {
            None => {
                let mut cursor = aggregate.await?;
                while cursor.advance().await? {
                    found.push(Document::try_from(cursor.current())?);
                }
            }
            Some(session) => {
                let mut cursor = aggregate.session(&mut *session).await?;
                while cursor.advance(session).await? {
                    found.push(Document::try_from(cursor.current())?);
                }
            }
        }
        Ok(found)
    }

    /// Inserts documents in order; stops at the first error that a repetition can't mend.
    pub(crate) async fn insert(
        &mut self,
        collection: &str,
        documents: Vec<Document>,
    ) -> Result<(), DriverError> {
        let raw = documents.iter().map(RawDocumentBuf::try_from).collect::<Result<Vec<_>, _>>()?;
        let (mut left, mut lost) = (&*raw, 0);
        while !left.is_empty() {
            let part = &left[..one_insert(left)];
            let collection = self.outbox.raw(collection);
            let insert = collection.insert_many(part);
            let inserted = match self.session.as_deref_mut() {
                None => insert.await,
                Some(session) => insert.session(session).await,
            };
            match inserted.map_err(DriverError::from) {
                Ok(_) => left = &left[part.len()..],
                Err(failure) if failure.has_lost() && !self.in_transaction() && self.retry(lost).await => {
                    left = &left[failure.place()..];
                    lost += 1;
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    /// Runs statements `{q, u, multi}` in order. Returns how many documents they matched.
    pub(crate) async fn update(
        &mut self,
        collection: &str,
        statements: Vec<Document>,
    ) -> Result<u64, DriverError> {
        let (mut matched, mut done, mut lost) = (0, 0, 0);
        while done < statements.len() {
            let part = statements.iter().skip(done).take(STATEMENTS).cloned();
            let part: Vec<Bson> = part.map(Bson::from).collect();
            let sent = part.len();
            let (changed, refused) = self.write(doc! { "update": collection, "updates": part }).await?;
            matched += changed;
            match refused {
                None => done += sent,
                // An update command stops at its first error: statements before it were applied, later ones
                // were not tried.
                Some((place, failure))
                    if failure.has_lost() && !self.in_transaction() && self.retry(lost).await =>
                {
                    done += place;
                    lost += 1;
                }
                Some((_, failure)) => return Err(failure),
            }
        }
        Ok(matched)
    }

    /// Updates all matching documents and returns how many matched.
    pub(crate) async fn update_all(
        &mut self,
        collection: &str,
        filter: Document,
        change: Document,
    ) -> Result<u64, DriverError> {
        self.update(collection, vec![doc! { "q": filter, "u": change, "multi": true }]).await
    }

    /// Deletes all matching documents and returns how many.
    pub(crate) async fn delete(&mut self, collection: &str, filter: Document) -> Result<u64, DriverError> {
        self.delete_each(collection, vec![filter]).await
    }

    /// Deletes all documents that match one of the filters and returns how many.
    pub(crate) async fn delete_each(
        &mut self,
        collection: &str,
        filters: Vec<Document>,
    ) -> Result<u64, DriverError> {
        let mut deleted = 0;
        for part in filters.chunks(STATEMENTS) {
            let part: Vec<Bson> =
                part.iter().map(|filter| Bson::from(doc! { "q": filter.clone(), "limit": 0 })).collect();
            match self.write(doc! { "delete": collection, "deletes": part }).await? {
                (_, Some((_, failure))) => return Err(failure),
                (count, None) => deleted += count,
            }
        }
        Ok(deleted)
    }

    /// Updates one document and returns its new content; `None` if none matches.
    pub(crate) async fn modify(
        &mut self,
        collection: &str,
        filter: Document,
        change: impl Into<Bson>,
    ) -> Result<Option<Document>, DriverError> {
        let command =
            doc! { "findAndModify": collection, "query": filter, "update": change.into(), "new": true };
        let mut answer = self.command(command).await?;
        match answer.remove("value") {
            Some(Bson::Document(document)) => Ok(Some(document)),
            _ => Ok(None),
        }
    }

    /// Sends a write command. Returns how many documents its statements matched, and the first failed
    /// statement.
    async fn write(&mut self, command: Document) -> Result<(u64, Option<(usize, DriverError)>), DriverError> {
        let answer = self.command(command).await?;
        let errors = answer.get_array("writeErrors").ok().and_then(|errors| errors.first());
        let refused = errors.and_then(Bson::as_document).map(|error| {
            let place = whole(error, "index").and_then(|place| usize::try_from(place).ok());
            (
                place.unwrap_or_default(),
                DriverError::Statement(whole(error, "code").unwrap_or_default() as i32),
            )
        });
        Ok((whole(&answer, "n").unwrap_or_default().unsigned_abs(), refused))
    }

    /// Sends a command and retries it on a write conflict. In a transaction the caller must retry the whole
    /// transaction.
    async fn command(&mut self, command: Document) -> Result<Document, DriverError> {
        let mut lost = 0;
        loop {
            match self.send(command.clone()).await {
                Err(failure) if failure.has_lost() && !self.in_transaction() && self.retry(lost).await => {
                    lost += 1;
                }
                answer => return answer,
            }
        }
    }

    async fn send(&mut self, mut command: Document) -> Result<Document, DriverError> {
        command.insert("maxTimeMS", i64::try_from(self.limit.as_millis()).unwrap_or(i64::MAX));
        let database = &self.outbox.database;
        let answer = match self.session.as_deref_mut() {
            None => {
                command.insert("writeConcern", confirmed_document(self.outbox.timeout));
                database.run_command(command).await?
            }
            Some(session) => database.run_command(command).session(session).await?,
        };
        match answer.get_document("writeConcernError") {
            Ok(error) => Err(DriverError::Statement(whole(error, "code").unwrap_or_default() as i32)),
            Err(_) => Ok(answer),
        }
    }
}

/// How many of these documents fit into one insert command; at least one.
fn one_insert(documents: &[RawDocumentBuf]) -> usize {
    let (most, mut room) = INSERTS;
    let fits = |document: &&RawDocumentBuf| {
        let left = room.checked_sub(document.as_bytes().len());
        room = left.unwrap_or(0);
        left.is_some()
    };
    documents.iter().take(most).take_while(fits).count().max(1)
}

/// Draws made in a session stay open until its transaction ends. `transact_in` takes over the draws of the
/// transactions it ends itself.
impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let (Some(session), false) = (&self.session, self.draws.is_empty()) {
            allocator::come_with(self.outbox, &session.id().to_string(), std::mem::take(&mut self.draws));
        }
    }
}

/// An integer of any BSON number type.
pub(crate) fn whole(document: &Document, field: &str) -> Option<i64> {
    match document.get(field)? {
        Bson::Int64(number) => Some(*number),
        Bson::Int32(number) => Some((*number).into()),
        Bson::Double(number) => Some(*number as i64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PBX-120: each insert is one command of the driver.
    #[test]
    fn an_insert_is_cut_to_what_one_command_holds() {
        let small = RawDocumentBuf::try_from(&doc! { "_id": 1 }).expect("it is small");
        let large = RawDocumentBuf::try_from(&doc! { "_id": "x".repeat(15 << 20) }).expect("it is valid");
        assert_eq!(one_insert(&vec![small.clone(); INSERTS.0 + 1]), INSERTS.0);
        assert_eq!(one_insert(&[large.clone(), large.clone(), large, small]), 2, "of 45 MiB");
        let larger = RawDocumentBuf::try_from(&doc! { "_id": "x".repeat(33 << 20) }).expect("it is valid");
        assert_eq!(one_insert(&[larger]), 1, "the server refuses it");
    }
}
