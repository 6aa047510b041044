//! Limits connections by peer and in total, and keeps a reserve in which health is always answered.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

/// Regular connections.
const CONNECTIONS: usize = 64;
/// Regular connections of one peer.
const PER_PEER: usize = 16;
/// Connections in the reserve. One more ends the oldest of them.
const RESERVE: usize = 16;

/// Marks requests of connections in the reserve: only health is answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InReserve;

#[derive(Default)]
struct Open {
    regular: usize,
    by_peer: HashMap<IpAddr, usize>,
    reserve: VecDeque<(u64, CancellationToken)>,
    last: u64,
}

/// The open connections of a server.
#[derive(Default)]
pub(crate) struct ConnectionLimits(Mutex<Open>);

/// The permit of one connection; dropping it makes room.
pub(crate) struct ConnectionPermit {
    limits: Arc<ConnectionLimits>,
    peer: IpAddr,
    /// Set in the reserve: its number, and what ends the connection.
    reserve: Option<(u64, CancellationToken)>,
}

impl ConnectionLimits {
    /// Admits a connection: as a regular one if its peer and the server have room, else in the reserve.
    pub(crate) fn admit(self: &Arc<Self>, peer: IpAddr) -> ConnectionPermit {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_peer = open.by_peer.get(&peer).copied().unwrap_or_default();
        let reserve = if open.regular < CONNECTIONS && of_peer < PER_PEER {
            open.regular += 1;
            open.by_peer.insert(peer, of_peer + 1);
            None
        } else {
            if open.reserve.len() >= RESERVE
                && let Some((_, oldest)) = open.reserve.pop_front()
            {
                oldest.cancel();
            }
            open.last += 1;
            let entry = (open.last, CancellationToken::new());
            open.reserve.push_back(entry.clone());
            Some(entry)
        };
        drop(open);
        ConnectionPermit { limits: Arc::clone(self), peer, reserve }
    }
}

impl ConnectionPermit {
    pub(crate) fn is_in_reserve(&self) -> bool {
        self.reserve.is_some()
    }

    /// Waits until the connection must close to make room.
    pub(crate) async fn revoked(&self) {
        match &self.reserve {
            Some((_, revoked)) => revoked.cancelled().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut open = self.limits.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((number, _)) = &self.reserve {
            open.reserve.retain(|(other, _)| other != number);
            return;
        }
        open.regular -= 1;
        let left = open.by_peer.get(&self.peer).copied().unwrap_or_default().saturating_sub(1);
        if left == 0 {
            open.by_peer.remove(&self.peer)
        } else {
            open.by_peer.insert(self.peer, left)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PBX-202
    #[test]
    fn one_peer_cannot_use_up_the_connections_of_others_and_the_reserve_closes_its_oldest() {
        let limits = Arc::new(ConnectionLimits::default());
        let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let permits: Vec<ConnectionPermit> = (0..PER_PEER).map(|_| limits.admit(one)).collect();
        assert!(permits.iter().all(|permit| !permit.is_in_reserve()));
        let first = limits.admit(one);
        assert!(first.is_in_reserve() && !limits.admit(other).is_in_reserve());
        let reserve: Vec<ConnectionPermit> = (0..RESERVE).map(|_| limits.admit(one)).collect();
        let closed = |permit: &ConnectionPermit| {
            permit.reserve.as_ref().is_some_and(|(_, revoked)| revoked.is_cancelled())
        };
        assert!(closed(&first) && !reserve.iter().any(closed));
        drop((permits, first, reserve));
        let open = limits.0.lock().unwrap();
        assert_eq!((open.regular, open.by_peer.len(), open.reserve.len()), (0, 0, 0));
    }
}
