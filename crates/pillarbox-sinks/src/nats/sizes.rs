//! Remembers message sizes per subject, so that no message is published past one that its stream may refuse.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of remembered subjects. Above it all are forgotten, which costs one round trip per subject.
const SUBJECTS_MAX: usize = 8_192;

/// The largest accepted message of each subject, in bytes. NATS does not tell publishers a stream's
/// `max_msg_size`, so a message above the largest accepted one may be refused.
#[derive(Default)]
pub(super) struct Sizes(Mutex<BTreeMap<String, usize>>);

impl Sizes {
    fn table(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many messages of these sizes can be sent without waiting: up to and including the first that may
    /// be refused.
    pub(super) fn window(&self, subject: &str, sizes: impl Iterator<Item = usize>) -> usize {
        let taken = self.table().get(subject).copied();
        let mut count = 0;
        for size in sizes {
            count += 1;
            if taken.is_none_or(|taken| size > taken) {
                break;
            }
        }
        count
    }

    /// Records that the stream accepted a message of this size.
    pub(super) fn taken(&self, subject: &str, size: usize) {
        let mut table = self.table();
        match table.get_mut(subject) {
            Some(largest) => *largest = size.max(*largest),
            None => {
                if table.len() >= SUBJECTS_MAX {
                    table.clear();
                }
                table.insert(subject.to_owned(), size);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PBX-010
    #[test]
    fn a_window_ends_with_what_is_larger_than_anything_before() {
        let sizes = Sizes::default();
        let window = |of: &[usize]| sizes.window("a", of.iter().copied());
        assert_eq!((window(&[]), window(&[1, 1])), (0, 1), "nothing is known of the subject");
        sizes.taken("a", 10);
        sizes.taken("a", 5);
        assert_eq!((window(&[10, 3, 10]), window(&[10, 11, 3]), window(&[11])), (3, 2, 1));
        assert_eq!(sizes.window("b", [1, 1].into_iter()), 1);
    }

    #[test]
    fn subjects_are_not_remembered_without_end() {
        let sizes = Sizes::default();
        (0..SUBJECTS_MAX + 1).for_each(|n| sizes.taken(&n.to_string(), 1));
        assert_eq!(sizes.table().len(), 1);
    }
}
