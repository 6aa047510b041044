//! The sessions in which nodes and workers settle and take, and how to kill those of a crashed process.
//!
//! The server keeps the transaction of a crashed process open for a minute, and its documents locked. So each
//! session is recorded before its first use. A process that evicts a node, or finds an expired claim of a
//! worker, kills the recorded sessions. A session that an evicted node records later is harmless: its settle
//! finds the node gone.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mongodb::ClientSession;
use mongodb::bson::{Bson, Document, doc};
use pillarbox::model::{NodeId, OwnerId};
use tokio::time::Instant;

use crate::call::{Call, Find};
use crate::error::DriverError;
use crate::membership::FENCES;
use crate::outbox::{Outbox, Server};

/// A holder's list keeps the newest 100 sessions. A holder uses two or three, and more only after calls that
/// timed out.
const NOTED: i32 = -100;
/// A worker's record is renewed after this time, because old records are deleted.
const RENEWED: Duration = Duration::from_secs(15 * 60);

/// The node or worker that uses a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Holder {
    Node(NodeId),
    /// A queue worker or another claimer.
    Owner(OwnerId),
}

impl Holder {
    /// The id of the document that lists its sessions.
    pub(crate) fn key(&self) -> String {
        match self {
            Self::Node(node) => format!("{node} sessions"),
            Self::Owner(owner) => format!("owner {owner} sessions"),
        }
    }
}

/// A session, the holder it was last recorded for, and when.
pub(crate) struct Noted {
    holder: Holder,
    at: Instant,
    pub(crate) session: ClientSession,
}

impl Noted {
    fn is_for(&self, holder: &Holder) -> bool {
        self.holder == *holder && (matches!(holder, Holder::Node(_)) || self.at.elapsed() < RENEWED)
    }
}

/// The sessions of this process for settles and takes.
///
/// They do not return to the driver's pool. The driver could reuse them for the application's transactions,
/// and an eviction would kill those too.
#[derive(Default)]
pub(crate) struct Sessions {
    idle: Mutex<Vec<Noted>>,
    places: Mutex<Vec<(Holder, usize)>>,
}

/// The place of a transaction among those that its holder runs at the same time. Each writes another fence document of
/// the holder, because two that write the same one conflict.
pub(crate) struct Place<'a> {
    sessions: &'a Sessions,
    holder: Holder,
    pub(crate) fence: usize,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut places = self.sessions.places.lock().unwrap_or_else(PoisonError::into_inner);
        let own = |(holder, fence): &(Holder, usize)| *fence == self.fence && *holder == self.holder;
        if let Some(place) = places.iter().position(own) {
            places.swap_remove(place);
        }
    }
}

impl Sessions {
    /// Takes the first free place. If there is none, shares one: that transaction conflicts and is retried.
    pub(crate) fn place(&self, holder: &Holder) -> Place<'_> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free = |fence: &usize| !places.iter().any(|(other, used)| used == fence && other == holder);
        let fence = (0..FENCES).find(is_free).unwrap_or_default();
        places.push((holder.clone(), fence));
        Place { sessions: self, holder: holder.clone(), fence }
    }

    /// Takes an idle session: one recorded for this holder if possible, else one that must be recorded for it
    /// first.
    fn idle(&self, holder: &Holder) -> Option<Noted> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let own = idle.iter().position(|noted| noted.is_for(holder));
        own.map(|place| idle.swap_remove(place)).or_else(|| idle.pop())
    }

    pub(crate) fn give_back(&self, noted: Noted) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(noted);
    }

    /// Drops all idle sessions and deletes the records of workers. Records of nodes are deleted with the
    /// node.
    pub(crate) async fn clear(&self, outbox: &Arc<Outbox>) {
        let idle = std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner));
        let owners = idle.iter().filter(|noted| matches!(noted.holder, Holder::Owner(_)));
        let keys: Vec<String> = owners.map(|noted| noted.holder.key()).collect();
        if keys.is_empty() {
            return;
        }
        let notes = doc! { "_id": { "$in": keys } };
        if Call::new(outbox, None).delete(&outbox.names.node, notes).await.is_err() {
            tracing::debug!("could not delete the session list of this process");
        }
    }
}

/// A session that is recorded for this holder.
pub(crate) async fn of(outbox: &Arc<Outbox>, holder: &Holder) -> Result<Noted, DriverError> {
    let session = match outbox.sessions.idle(holder) {
        Some(noted) if noted.is_for(holder) => return Ok(noted),
        Some(noted) => noted.session,
        None => outbox.database.client().start_session().await?,
    };
    let known = doc! { "$ifNull": ["$sessions", []] };
    let all = doc! { "$concatArrays": [known, [{ "$literal": session.id().clone() }]] };
    let made_at = doc! { "$multiply": [{ "$toLong": "$$NOW" }, 1_000_i64] };
    let noted = doc! { "$set": { "sessions": { "$slice": [all, NOTED] }, "made_at": made_at } };
    // A node without this document was evicted, and its call will find that out. A worker is not registered,
    // so its document is created here.
    let upsert = matches!(holder, Holder::Owner(_));
    let note = doc! { "q": { "_id": holder.key() }, "u": [noted], "upsert": upsert };
    Call::new(outbox, None).update(&outbox.names.node, vec![note]).await?;
    Ok(Noted { holder: holder.clone(), at: Instant::now(), session })
}

/// Kills all recorded sessions of these holders, and with them their open transactions.
///
/// A user may always kill its own sessions. Sessions of another user go on until the server ends their
/// transactions.
pub(crate) async fn end(
    call: &mut Call<'_>,
    gone: impl IntoIterator<Item = Holder>,
) -> Result<(), DriverError> {
    let keys: Vec<String> = gone.into_iter().map(|holder| holder.key()).collect();
    let find = Find { filter: doc! { "_id": { "$in": keys } }, ..Find::default() };
    let mut sessions: Vec<Bson> = Vec::new();
    for noted in call.find(&call.names().node, find).await? {
        let noted = Document::try_from(&*noted)?;
        sessions.extend(noted.get_array("sessions").into_iter().flatten().cloned());
    }
    if !sessions.is_empty() {
        let admin = call.outbox().database.client().database("admin");
        admin.run_command(doc! { "killSessions": sessions }).await?;
    }
    Ok(())
}

/// Kills the sessions of workers whose claims have expired, and deletes records that no worker has renewed.
///
/// A worker whose claim has expired may be alive and use its recorded session again, so its record stays. It
/// renews the record before it is old enough to be deleted.
pub(crate) async fn end_of_owners(call: &mut Call<'_>, owners: BTreeSet<OwnerId>) -> Result<(), DriverError> {
    if owners.is_empty() || call.outbox().server == Server::Alone {
        return Ok(());
    }
    end(call, owners.into_iter().map(Holder::Owner)).await?;
    let kept_ms = i64::try_from(2 * RENEWED.as_millis()).unwrap_or(i64::MAX);
    let old = doc! { "$multiply": [{ "$toLong": { "$subtract": ["$$NOW", kept_ms] } }, 1_000_i64] };
    let left = doc! { "_id": { "$regex": "^owner " }, "$expr": { "$lt": ["$made_at", old] } };
    call.delete(&call.names().node, left).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OBX-019
    #[test]
    fn transactions_of_one_holder_at_the_same_time_write_different_fence_documents() {
        let (sessions, node) = (Sessions::default(), |number| Holder::Node(NodeId::from_random(number)));
        let (first, second) = (sessions.place(&node(1)), sessions.place(&node(1)));
        assert_eq!((first.fence, second.fence), (0, 1));
        assert_eq!(sessions.place(&node(2)).fence, 0, "another node has its own");
        assert_eq!(sessions.place(&node(1)).fence, 0, "with none left, one is shared");
        drop(first);
        assert_eq!(sessions.place(&node(1)).fence, 0);
        drop(second);
        assert!(sessions.places.lock().unwrap().is_empty());
    }
}
