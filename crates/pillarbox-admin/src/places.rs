//! Places for connections, by peer and in total, and a reserve in which health is always answered.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

/// Connections with a place of their own.
const CONNECTIONS: usize = 64;
/// Connections of one peer with such a place.
const PER_PEER: usize = 16;
/// Connections in the reserve. One more ends the oldest of them.
const RESERVE: usize = 16;

/// Marks requests of connections in the reserve: only health is answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Crowded;

#[derive(Default)]
struct Taken {
    total: usize,
    by_peer: HashMap<IpAddr, usize>,
    reserve: VecDeque<(u64, CancellationToken)>,
    last: u64,
}

/// The places of a server.
#[derive(Default)]
pub(crate) struct Places(Mutex<Taken>);

/// The place of one connection; dropping it makes room.
pub(crate) struct Seat {
    places: Arc<Places>,
    peer: IpAddr,
    /// Set in the reserve: its number, and what ends the connection.
    reserve: Option<(u64, CancellationToken)>,
}

impl Places {
    /// Seats a connection: with a place of its own if its peer and the server have room, else in the reserve.
    pub(crate) fn enter(self: &Arc<Self>, peer: IpAddr) -> Seat {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_peer = taken.by_peer.get(&peer).copied().unwrap_or_default();
        let reserve = if taken.total < CONNECTIONS && of_peer < PER_PEER {
            taken.total += 1;
            taken.by_peer.insert(peer, of_peer + 1);
            None
        } else {
            if taken.reserve.len() >= RESERVE
                && let Some((_, oldest)) = taken.reserve.pop_front()
            {
                oldest.cancel();
            }
            taken.last += 1;
            let entry = (taken.last, CancellationToken::new());
            taken.reserve.push_back(entry.clone());
            Some(entry)
        };
        drop(taken);
        Seat { places: Arc::clone(self), peer, reserve }
    }
}

impl Seat {
    pub(crate) fn is_crowded(&self) -> bool {
        self.reserve.is_some()
    }

    /// Waits until the connection has to make room.
    pub(crate) async fn must_leave(&self) {
        match &self.reserve {
            Some((_, leave)) => leave.cancelled().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.places.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((number, _)) = &self.reserve {
            taken.reserve.retain(|(other, _)| other != number);
            return;
        }
        taken.total -= 1;
        let left = taken.by_peer.get(&self.peer).copied().unwrap_or_default().saturating_sub(1);
        if left == 0 {
            taken.by_peer.remove(&self.peer)
        } else {
            taken.by_peer.insert(self.peer, left)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PBX-202
    #[test]
    fn one_peer_cannot_take_the_places_of_others_and_the_reserve_turns_over() {
        let places = Arc::new(Places::default());
        let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let seats: Vec<Seat> = (0..PER_PEER).map(|_| places.enter(one)).collect();
        assert!(seats.iter().all(|seat| !seat.is_crowded()));
        let first = places.enter(one);
        assert!(first.is_crowded() && !places.enter(other).is_crowded());
        let crowd: Vec<Seat> = (0..RESERVE).map(|_| places.enter(one)).collect();
        let left = |seat: &Seat| seat.reserve.as_ref().is_some_and(|(_, leave)| leave.is_cancelled());
        assert!(left(&first) && !crowd.iter().any(left));
        drop((seats, first, crowd));
        let taken = places.0.lock().unwrap();
        assert_eq!((taken.total, taken.by_peer.len(), taken.reserve.len()), (0, 0, 0));
    }
}
