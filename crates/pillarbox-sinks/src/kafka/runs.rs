//! Collects the results of records in flight, so that a delivery waits once per run, not once per record.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::error::KafkaError;
use tokio::sync::oneshot;

/// The position of the first failed record of a run, and its error.
pub(super) type Failed = Option<(usize, KafkaError)>;

/// The runs of one producer. Every record has a number, and the numbers of a run are consecutive.
#[derive(Clone, Default)]
pub(super) struct Runs(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    next: usize,
    /// Runs in flight, by the number of their first record.
    out: BTreeMap<usize, Run>,
}

struct Run {
    records: usize,
    /// Number of results that are still missing.
    left: usize,
    failed: Failed,
    done: oneshot::Sender<Failed>,
}

/// A run whose records are being handed over. If it is dropped, the run expects results only for the records
/// that were handed over.
pub(super) struct Begun<'r> {
    runs: &'r Runs,
    first: usize,
    /// Number of records that are still to be handed over.
    missing: usize,
    done: oneshot::Receiver<Failed>,
}

impl Runs {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a run and assigns its numbers.
    pub(super) fn begin(&self, records: usize) -> Begun<'_> {
        let mut table = self.table();
        // When the numbers wrap around, the runs with low numbers have long ended.
        let first = if table.next.checked_add(records).is_some() { table.next } else { 0 };
        table.next = first + records;
        let (sender, done) = oneshot::channel();
        table.out.insert(first, Run { records, left: records, failed: None, done: sender });
        Begun { runs: self, first, missing: records, done }
    }

    /// Records the result of a record.
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

impl Begun<'_> {
    /// The number of the record at this position.
    pub(super) fn number(&self, place: usize) -> usize {
        self.first + place
    }

    /// Notes that one more record was handed over, so its result will arrive.
    pub(super) fn handed_over(&mut self) {
        self.missing -= 1;
    }

    /// Waits for the results of all records that were handed over. `None` means that the producer is gone.
    pub(super) async fn done(mut self) -> Option<Failed> {
        self.shorten();
        (&mut self.done).await.ok()
    }

    /// Stops expecting results for records that were not handed over.
    fn shorten(&mut self) {
        let missing = std::mem::take(&mut self.missing);
        if missing > 0 {
            self.runs.table().less(self.first, missing);
        }
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.shorten();
    }
}

impl Table {
    fn less(&mut self, first: usize, answers: usize) {
        let Some(run) = self.out.get_mut(&first) else { return };
        run.left = run.left.saturating_sub(answers);
        if run.left == 0
            && let Some(run) = self.out.remove(&first)
        {
            // Fails if the delivery has stopped waiting, which is fine.
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

    /// A run that is handed over whole.
    fn whole(runs: &Runs, records: usize) -> Begun<'_> {
        let mut run = runs.begin(records);
        (0..records).for_each(|_| run.handed_over());
        run
    }

    #[test]
    fn a_run_is_done_with_its_last_answer_in_whatever_order_they_come() {
        let runs = Runs::default();
        let (mut one, mut other) = (whole(&runs, 2), whole(&runs, 3));
        runs.answer(other.number(2), None);
        runs.answer(one.number(1), None);
        assert!(one.done.try_recv().is_err() && other.done.try_recv().is_err());
        runs.answer(one.number(0), None);
        assert_eq!(one.done.try_recv().unwrap(), None);
        runs.answer(other.number(0), None);
        runs.answer(other.number(1), None);
        assert_eq!(other.done.try_recv().unwrap(), None);
        assert!(runs.table().out.is_empty());
    }

    #[test]
    fn the_first_failure_of_a_run_is_told() {
        let runs = Runs::default();
        let mut run = whole(&runs, 3);
        runs.answer(run.number(2), refused(RDKafkaErrorCode::PurgeQueue));
        runs.answer(run.number(1), refused(RDKafkaErrorCode::InvalidRecord));
        runs.answer(run.number(0), None);
        let (place, error) = run.done.try_recv().unwrap().unwrap();
        assert_eq!((place, error.rdkafka_error_code()), (1, Some(RDKafkaErrorCode::InvalidRecord)));
    }

    #[tokio::test]
    async fn records_that_were_not_handed_over_are_not_waited_for() {
        let runs = Runs::default();
        let mut run = runs.begin(3);
        run.handed_over();
        runs.answer(run.number(0), None);
        assert_eq!(run.done().await, Some(None));
        assert_eq!(runs.begin(1).done().await, Some(None));
        assert!(runs.table().out.is_empty());
    }

    #[test]
    fn a_run_that_is_dropped_half_way_stays_only_for_what_was_handed_over() {
        let runs = Runs::default();
        let mut run = runs.begin(3);
        run.handed_over();
        let first = run.number(0);
        drop(run);
        assert_eq!(runs.table().out.len(), 1);
        runs.answer(first, None);
        assert!(runs.table().out.is_empty());
    }

    #[test]
    fn a_late_answer_finds_only_its_own_run() {
        let runs = Runs::default();
        let (mut earlier, later) = (whole(&runs, 1), whole(&runs, 1));
        let number = later.number(0);
        drop(later);
        runs.answer(number, None);
        // Nobody has this number any more, the run before it least of all.
        runs.answer(number, None);
        assert!(earlier.done.try_recv().is_err());
        runs.answer(earlier.number(0), None);
        assert!(earlier.done.try_recv().is_ok() && runs.table().out.is_empty());
    }
}
