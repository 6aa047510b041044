//! The sessions that nodes settle and take in, and how those of an evicted node are ended.
//!
//! A server keeps the transaction of a process that has died open for a minute, and refuses its documents to all others.
//! So a node notes each session beside its own documents before it first uses it, and whoever evicts the node has the
//! server end them. A session that is noted later than that finds its node gone from the list.

use std::sync::{Arc, Mutex, PoisonError};

use mongodb::ClientSession;
use mongodb::bson::{Bson, Document, doc};
use pillarbox::model::NodeId;

use crate::call::{Call, Find};
use crate::error::Failure;
use crate::outbox::Outbox;

/// How many sessions are noted of one node, the newest. It uses one or two, and others only after calls that ran out of time.
const NOTED: i32 = -100;

/// Sessions of this process that no call uses now, with the node each was last noted for.
///
/// They do not go back to the driver, which would give them to transactions of the application: an eviction would end those too.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<Vec<(NodeId, ClientSession)>>);

impl Sessions {
    /// One of this node's, else one that has to be noted for it.
    fn idle(&self, node: NodeId) -> Option<(NodeId, ClientSession)> {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = idle.iter().position(|(noted, _)| *noted == node);
        own.map(|place| idle.swap_remove(place)).or_else(|| idle.pop())
    }

    pub(crate) fn give_back(&self, node: NodeId, session: ClientSession) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((node, session));
    }

    /// Lets all of them go.
    pub(crate) fn clear(&self) {
        let idle = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        drop(idle);
    }
}

/// A session that is noted for this node.
pub(crate) async fn of_node(outbox: &Arc<Outbox>, node: NodeId) -> Result<ClientSession, Failure> {
    let session = match outbox.sessions.idle(node) {
        Some((noted, session)) if noted == node => return Ok(session),
        Some((_, session)) => session,
        None => outbox.database.client().start_session().await?,
    };
    let entry = doc! { "$each": [session.id().clone()], "$slice": NOTED };
    let note = doc! { "q": { "_id": key(node) }, "u": { "$push": { "sessions": entry } } };
    // Where there is no such document the node is gone, as its call will find.
    Call::new(outbox, None).update(&outbox.names.node, vec![note]).await?;
    Ok(session)
}

/// Has the server end all sessions of nodes that are gone from the list, and with them what they have left open.
///
/// A user may always end own sessions. Those of another user go on, and are ended by the server in the end.
pub(crate) async fn end(call: &mut Call<'_>, gone: &[NodeId]) -> Result<(), Failure> {
    let keys: Vec<String> = gone.iter().map(|node| key(*node)).collect();
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

/// The document that has the sessions of a node.
pub(crate) fn key(node: NodeId) -> String {
    format!("{node} sessions")
}
