//! A hash of our own: it spreads groups over slots, and is the same in every run, as maps here are.

use std::hash::{BuildHasherDefault, Hasher};

use crate::rules::SLOTS;

/// A map whose order does not depend on the run.
pub(super) type FixedMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<Mixer>>;

/// Multiplies and folds, eight bytes at a time.
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
        // The length tells a text from the same one with zeros behind it.
        self.mix(u64::from_le_bytes(last) ^ ((bytes.len() as u64) << 56));
    }

    fn finish(&self) -> u64 {
        self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// The slot that this key falls into.
pub(super) fn slot_of(key: &str) -> i16 {
    let mut hasher = Mixer::default();
    hasher.write(key.as_bytes());
    ((hasher.finish() >> 32) & (SLOTS as u64 - 1)) as i16
}
