//! TSIDs: 42 bits of milliseconds since 2020, then 22 bits that begin at random and count up.

use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};

use jiff::Timestamp;

use super::Invalid;

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const EPOCH_MS: i64 = 1_577_836_800_000;
const LOW_BITS: u32 = 22;

/// A time-sorted id of 64 bits, 13 characters of Crockford's base 32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tsid(u64);

impl Tsid {
    /// Parses 13 characters; accepts lower case and the look-alikes I, L and O.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let malformed = |reason: &str| Invalid::Malformed { field: "tsid", reason: reason.to_owned() };
        if text.len() != 13 {
            return Err(malformed("a tsid has 13 characters"));
        }
        let mut value: u128 = 0;
        for byte in text.bytes() {
            let upper = match byte.to_ascii_uppercase() {
                b'I' | b'L' => b'1',
                b'O' => b'0',
                other => other,
            };
            let digit = ALPHABET
                .iter()
                .position(|&c| c == upper)
                .ok_or_else(|| malformed("not Crockford base 32"))?;
            value = value << 5 | digit as u128;
        }
        u64::try_from(value).map(Self).map_err(|_| malformed("more than 64 bits"))
    }

    /// The id as a number.
    #[must_use]
    pub const fn to_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Tsid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0_u8; 13];
        for (i, slot) in text.iter_mut().enumerate() {
            *slot = ALPHABET[(self.0 >> (60 - 5 * i)) as usize & 31];
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

/// Generates TSIDs that increase within one process, even within one millisecond.
#[derive(Debug, Default)]
pub struct TsidGenerator {
    last: Mutex<u64>,
}

impl TsidGenerator {
    /// The shared generator of this process.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<TsidGenerator> = OnceLock::new();
        SHARED.get_or_init(Self::default)
    }

    /// Generates the next id.
    pub fn next(&self) -> Tsid {
        let ms = Timestamp::now().as_millisecond().saturating_sub(EPOCH_MS).max(0) as u64;
        // The random start leaves the upper half of the low bits for counting within the millisecond.
        let random = (uuid::Uuid::new_v4().as_u128() as u64) & ((1 << (LOW_BITS - 1)) - 1);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = (ms << LOW_BITS | random).max(*last + 1);
        Tsid(*last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RLY-004
    #[test]
    fn tsids_are_13_characters_that_sort_and_read_back() {
        let generator = TsidGenerator::default();
        let ids: Vec<_> = (0..5_000).map(|_| generator.next()).collect();
        assert!(ids.windows(2).all(|p| p[0] < p[1] && p[0].to_string() < p[1].to_string()));
        assert!(ids.iter().all(|id| Tsid::parse(&id.to_string()) == Ok(*id)));
        assert!(Tsid::parse("0HZXEQ5Y8JY5Z").is_ok());
        assert!(Tsid::parse("0HZXEQ5Y8JY5U").is_err());
        assert!(Tsid::parse("ZZZZZZZZZZZZZ").is_err());
    }
}
