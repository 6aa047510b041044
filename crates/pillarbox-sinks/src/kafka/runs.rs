//! Runs of records that are out: one wait for all of a run, instead of one for each record.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::error::KafkaError;
use tokio::sync::oneshot;

/// The first record of a run that failed, by its place, and why.
pub(super) type Failed = Option<(usize, KafkaError)>;

/// The runs of one producer. Every record has a number; those of a run follow each other.
#[derive(Clone, Default)]
pub(super) struct Runs(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    next: usize,
    /// By the number of their first record.
    out: BTreeMap<usize, Run>,
}

struct Run {
    records: usize,
    /// How many answers are missing.
    left: usize,
    failed: Failed,
    done: oneshot::Sender<Failed>,
}

/// A run whose records are being handed over.
pub(super) struct Begun {
    /// The number of its first record.
    pub(super) first: usize,
    /// Resolves when every record has its answer.
    pub(super) done: oneshot::Receiver<Failed>,
}

impl Runs {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives numbers to so many records.
    pub(super) fn begin(&self, records: usize) -> Begun {
        let mut table = self.table();
        // Whoever had the low numbers is long gone when they come round again.
        let first = if table.next.checked_add(records).is_some() { table.next } else { 0 };
        table.next = first + records;
        let (sender, done) = oneshot::channel();
        table.out.insert(first, Run { records, left: records, failed: None, done: sender });
        Begun { first, done }
    }

    /// So many records of a run were not handed over, and get no answer.
    pub(super) fn shorten(&self, first: usize, missing: usize) {
        self.table().less(first, missing);
    }

    /// A record has its answer.
    pub(super) fn answer(&self, number: usize, error: Option<KafkaError>) {
        let mut table = self.table();
        let Some((&first, run)) = table.out.range_mut(..=number).next_back() else { return };
        let place = number - first;
        if place >= run.records {
            return;
        }
        if let Some(error) = error
            && run.failed.as_ref().is_none_or(|(earlier, _)| place < *earlier)
        {
            run.failed = Some((place, error));
        }
        table.less(first, 1);
    }
}

impl Table {
    fn less(&mut self, first: usize, answers: usize) {
        let Some(run) = self.out.get_mut(&first) else { return };
        run.left = run.left.saturating_sub(answers);
        if run.left == 0
            && let Some(run) = self.out.remove(&first)
        {
            // Nobody may wait any more.
            let _ = run.done.send(run.failed);
        }
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::error::RDKafkaErrorCode;

    use super::*;

    fn refused(code: RDKafkaErrorCode) -> Option<KafkaError> {
        Some(KafkaError::MessageProduction(code))
    }

    #[test]
    fn a_run_is_done_with_its_last_answer_in_whatever_order_they_come() {
        let runs = Runs::default();
        let (mut one, mut other) = (runs.begin(2), runs.begin(3));
        runs.answer(other.first + 2, None);
        runs.answer(one.first + 1, None);
        assert!(one.done.try_recv().is_err() && other.done.try_recv().is_err());
        runs.answer(one.first, None);
        assert_eq!(one.done.try_recv().unwrap(), None);
        runs.answer(other.first, None);
        runs.answer(other.first + 1, None);
        assert_eq!(other.done.try_recv().unwrap(), None);
        assert!(runs.table().out.is_empty());
    }

    #[test]
    fn the_first_failure_of_a_run_is_told() {
        let runs = Runs::default();
        let mut run = runs.begin(3);
        runs.answer(run.first + 2, refused(RDKafkaErrorCode::PurgeQueue));
        runs.answer(run.first + 1, refused(RDKafkaErrorCode::InvalidRecord));
        runs.answer(run.first, None);
        let (place, error) = run.done.try_recv().unwrap().unwrap();
        assert_eq!((place, error.rdkafka_error_code()), (1, Some(RDKafkaErrorCode::InvalidRecord)));
    }

    #[test]
    fn records_that_were_not_handed_over_are_not_waited_for() {
        let runs = Runs::default();
        let mut run = runs.begin(3);
        runs.answer(run.first, None);
        runs.shorten(run.first, 2);
        assert_eq!(run.done.try_recv().unwrap(), None);
        let mut none = runs.begin(1);
        runs.shorten(none.first, 1);
        assert_eq!(none.done.try_recv().unwrap(), None);
    }

    #[test]
    fn answers_for_who_gave_up_are_dropped() {
        let runs = Runs::default();
        let (mut earlier, run) = (runs.begin(1), runs.begin(1));
        drop(run.done);
        runs.answer(run.first, None);
        // Nobody has this number any more, the run before it least of all.
        runs.answer(run.first, None);
        assert!(earlier.done.try_recv().is_err());
        runs.answer(earlier.first, None);
        assert!(earlier.done.try_recv().is_ok() && runs.table().out.is_empty());
    }
}
