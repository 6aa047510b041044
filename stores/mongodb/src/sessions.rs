//! The sessions that nodes and workers settle and take in, and how those of one that has died are ended.
//!
//! A server keeps the transaction of a process that has died open for a minute, and refuses its documents to all others.
//! So each session is noted before it is first used. Whoever evicts a node, or finds that a claim of a worker has run out, has the
//! server end the sessions that are noted for it. A session of a node that is noted later than that finds its node gone from the
//! list.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mongodb::ClientSession;
use mongodb::bson::{Bson, Document, doc};
use pillarbox::model::{NodeId, OwnerId};
use tokio::time::Instant;

use crate::call::{Call, Find};
use crate::error::Failure;
use crate::outbox::{Outbox, Server};

/// How many sessions are noted of one holder, the newest. It uses one or two, and others only after calls that ran out of time.
const NOTED: i32 = -100;
/// A note of a worker is renewed after this long: old ones are removed.
const RENEWED: Duration = Duration::from_secs(15 * 60);

/// Whose outcomes a session carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Holder {
    Node(NodeId),
    /// A worker of the queue, or whoever else claims.
    Owner(OwnerId),
}

impl Holder {
    /// The document that has its sessions.
    pub(crate) fn key(&self) -> String {
        match self {
            Self::Node(node) => format!("{node} sessions"),
            Self::Owner(owner) => format!("owner {owner} sessions"),
        }
    }
}

/// A session, for whom it was last noted, and when.
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

/// The sessions of this process that no call uses now.
///
/// They do not go back to the driver, which would give them to transactions of the application: an eviction would end those too.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<Vec<Noted>>);

impl Sessions {
    /// One of this holder's, else one that has to be noted for it.
    fn idle(&self, holder: &Holder) -> Option<Noted> {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = idle.iter().position(|noted| noted.is_for(holder));
        own.map(|place| idle.swap_remove(place)).or_else(|| idle.pop())
    }

    pub(crate) fn give_back(&self, noted: Noted) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(noted);
    }

    /// Lets all of them go, and removes the notes of workers; those of nodes go with the node.
    pub(crate) async fn clear(&self, outbox: &Arc<Outbox>) {
        let idle = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let owners = idle.iter().filter(|noted| matches!(noted.holder, Holder::Owner(_)));
        let keys: Vec<String> = owners.map(|noted| noted.holder.key()).collect();
        if keys.is_empty() {
            return;
        }
        let notes = doc! { "_id": { "$in": keys } };
        if Call::new(outbox, None).delete(&outbox.names.node, notes).await.is_err() {
            tracing::debug!("the list of this process's sessions was left");
        }
    }
}

/// A session that is noted for this holder.
pub(crate) async fn of(outbox: &Arc<Outbox>, holder: &Holder) -> Result<Noted, Failure> {
    let session = match outbox.sessions.idle(holder) {
        Some(noted) if noted.is_for(holder) => return Ok(noted),
        Some(noted) => noted.session,
        None => outbox.database.client().start_session().await?,
    };
    let known = doc! { "$ifNull": ["$sessions", []] };
    let all = doc! { "$concatArrays": [known, [{ "$literal": session.id().clone() }]] };
    let made_at = doc! { "$multiply": [{ "$toLong": "$$NOW" }, 1_000_i64] };
    let noted = doc! { "$set": { "sessions": { "$slice": [all, NOTED] }, "made_at": made_at } };
    // Where a node has no such document it is gone, as its call will find. A worker is on no list.
    let upsert = matches!(holder, Holder::Owner(_));
    let note = doc! { "q": { "_id": holder.key() }, "u": [noted], "upsert": upsert };
    Call::new(outbox, None).update(&outbox.names.node, vec![note]).await?;
    Ok(Noted { holder: holder.clone(), at: Instant::now(), session })
}

/// Has the server end all sessions that are noted for these holders, and with them what they have left open.
///
/// A user may always end own sessions. Those of another user go on, and are ended by the server in the end.
pub(crate) async fn end(call: &mut Call<'_>, gone: impl IntoIterator<Item = Holder>) -> Result<(), Failure> {
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

/// The same for workers whose claims have run out. One that lives on notes its next session anew.
pub(crate) async fn end_of_owners(call: &mut Call<'_>, owners: BTreeSet<OwnerId>) -> Result<(), Failure> {
    if owners.is_empty() || call.outbox().server == Server::Alone {
        return Ok(());
    }
    let holders: Vec<Holder> = owners.into_iter().map(Holder::Owner).collect();
    end(call, holders.iter().cloned()).await?;
    let keys: Vec<String> = holders.iter().map(Holder::key).collect();
    call.delete(&call.names().node, doc! { "_id": { "$in": keys } }).await.map(drop)
}
