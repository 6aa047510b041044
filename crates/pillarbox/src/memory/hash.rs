//! FNV-1a: the hash that spreads groups over slots, and a fixed hasher for maps, so that every run is the same.

use std::hash::{BuildHasherDefault, Hasher};

use crate::rules::SLOTS;

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// A map whose order does not depend on the run.
pub(super) type FixedMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<Fnv>>;

/// The hasher.
#[derive(Clone)]
pub(super) struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(OFFSET)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(PRIME);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The slot that this key falls into.
pub(super) fn slot_of(key: &str) -> i16 {
    let mut hasher = Fnv::default();
    hasher.write(key.as_bytes());
    let hash = hasher.finish();
    ((hash ^ (hash >> 32)) & (SLOTS as u64 - 1)) as i16
}
