//! Selection policies: the order in which a worker polls its databases.

/// The databases of a worker at the time of a selection.
#[derive(Debug, Clone, Copy)]
pub struct SelectionState<'a> {
    /// Names of the databases that can be polled now, in ascending order. Never empty.
    pub ready: &'a [&'a str],
    /// Names of the databases that are being polled, without slow polls.
    pub busy: &'a [&'a str],
    /// Name of the database whose poll ended last, and the number of messages claimed there.
    pub last: Option<(&'a str, usize)>,
}

/// Selects the database to poll next.
pub trait Selection: Send + 'static {
    /// Returns an index into `ready`, or `None` to wait for a busy database.
    /// Called again when something changes.
    fn select(&mut self, state: SelectionState<'_>) -> Option<usize>;
}

/// Polls one batch from each database in turn.
#[derive(Debug, Clone, Default)]
pub struct RoundRobin {
    last: Option<String>,
}

impl Selection for RoundRobin {
    fn select(&mut self, state: SelectionState<'_>) -> Option<usize> {
        let place = after(state.ready, self.last.as_deref());
        self.last = Some(state.ready[place].to_owned());
        Some(place)
    }
}

/// Polls the same database until it has no more messages, then the next one.
#[derive(Debug, Clone, Default)]
pub struct DrainFirst {
    current: Option<String>,
}

impl Selection for DrainFirst {
    fn select(&mut self, state: SelectionState<'_>) -> Option<usize> {
        let current = self.current.as_deref();
        if current.is_some_and(|current| state.busy.contains(&current)) {
            return None;
        }
        let more = state.last.filter(|(name, messages)| Some(*name) == current && *messages > 0);
        let same = more.and_then(|(name, _)| state.ready.iter().position(|ready| *ready == name));
        let place = same.unwrap_or_else(|| after(state.ready, current));
        self.current = Some(state.ready[place].to_owned());
        Some(place)
    }
}

/// Index of the first name after `last`, wrapping around at the end.
fn after(ready: &[&str], last: Option<&str>) -> usize {
    last.and_then(|last| ready.iter().position(|name| *name > last)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [&str; 3] = ["a", "b", "c"];

    fn state<'a>(
        ready: &'a [&'a str],
        busy: &'a [&'a str],
        last: Option<(&'a str, usize)>,
    ) -> SelectionState<'a> {
        SelectionState { ready, busy, last }
    }

    /// OBX-068
    #[test]
    fn round_robin_takes_one_batch_from_each() {
        let mut robin = RoundRobin::default();
        let mut taken = Vec::new();
        let mut last = None;
        for _ in 0..7 {
            let place = robin.select(state(&ALL, &[], last)).unwrap();
            taken.push(ALL[place]);
            last = Some((ALL[place], 50));
        }
        assert_eq!(taken, ["a", "b", "c", "a", "b", "c", "a"]);
        assert_eq!(
            robin.select(state(&["a", "c"], &["b"], None)),
            Some(1),
            "what is not ready is passed over"
        );
    }

    /// OBX-069
    #[test]
    fn drain_first_stays_until_there_is_no_more() {
        let mut drain = DrainFirst::default();
        assert_eq!(drain.select(state(&ALL, &[], None)), Some(0));
        assert_eq!(drain.select(state(&["b", "c"], &["a"], None)), None, "its answer is waited for");
        for _ in 0..3 {
            assert_eq!(drain.select(state(&ALL, &[], Some(("a", 50)))), Some(0));
        }
        assert_eq!(drain.select(state(&ALL, &[], Some(("a", 0)))), Some(1));
        assert_eq!(drain.select(state(&["a", "c"], &[], Some(("b", 9)))), Some(1), "full or slow: the next");
    }
}
