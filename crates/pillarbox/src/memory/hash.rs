//! A hash that is the same in every run: distributes groups over slots, and makes maps deterministic.

use std::hash::{BuildHasherDefault, Hasher};

use crate::rules::SLOTS;

/// A hash map whose iteration order is the same in every run.
pub(super) type FixedMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<Mixer>>;

/// A multiplicative hasher that processes eight bytes at a time.
#[derive(Clone, Default)]
pub(super) struct Mixer(u64);

impl Mixer {
    fn mix(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        // The length distinguishes a text from the same text with trailing zero bytes.
        self.mix(u64::from_le_bytes(last) ^ ((bytes.len() as u64) << 56));
    }

    fn finish(&self) -> u64 {
        self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// Slot of a key.
pub(super) fn slot_of(key: &str) -> i16 {
    let mut hasher = Mixer::default();
    hasher.write(key.as_bytes());
    ((hasher.finish() >> 32) & (SLOTS as u64 - 1)) as i16
}
