//! The columns of joins that stores select, and how they are decoded.

use pillarbox::model::{
    Continuation, EventId, FailedSteps, JoinId, JoinMember, JoinRecord, JoinStatus, JoinWait, StepState,
    Values,
};
use pillarbox::port::ErrorKind;

use crate::Refused;

/// The columns of every read of joins, in the order that [`read_join`] expects.
pub const JOIN_COLUMNS: &str = "join_id, grouping_key, expected_steps, attached_steps, completed_steps, \
    failed_steps, status, metadata, fired_id, created_at, updated_at, fail_if_any, on_complete_topic, \
    on_complete_payload, on_fail_topic, on_fail_payload, continuation_id, continuation_headers";
/// Columns that may be long and decide nothing.
const CONTENTS: [&str; 4] = ["metadata", "on_complete_payload", "on_fail_payload", "continuation_headers"];

/// The columns of joins with NULL for those that may be long and decide nothing.
#[must_use]
pub fn join_state_columns() -> String {
    let shown = JOIN_COLUMNS.split(", ").map(|name| if CONTENTS.contains(&name) { "NULL" } else { name });
    shown.collect::<Vec<_>>().join(", ")
}

/// Decodes a join from a row that begins with [`JOIN_COLUMNS`].
///
/// # Errors
/// If a value has another type than its column.
pub fn read_join(values: &impl Values) -> Result<JoinRecord, Refused> {
    let row = Reading(values);
    Ok(JoinRecord {
        id: JoinId::from_row(row.text(0)?.unwrap_or_default()),
        grouping_key: row.text(1)?,
        expected: row.count(2)?,
        attached: row.count(3)?,
        completed: row.count(4)?,
        failed: row.count(5)?,
        status: JoinStatus::from_code(row.code(6)?),
        metadata: row.text(7)?,
        fired: row.text(8)?.map(EventId::from_row),
        created_at: row.time(9)?,
        updated_at: row.time(10)?,
        wait: row.wait()?,
    })
}

/// Decodes a member of a join from a row of its message, its state and when it was attached.
///
/// # Errors
/// If a value has another type than its column.
pub fn read_member(values: &impl Values) -> Result<JoinMember, Refused> {
    let row = Reading(values);
    Ok(JoinMember {
        message: EventId::from_row(row.text(0)?.unwrap_or_default()),
        state: StepState::from_code(row.code(1)?),
        attached_at: row.time(2)?,
    })
}

struct Reading<'r, V>(&'r V);

impl<V: Values> Reading<'_, V> {
    fn text(&self, position: usize) -> Result<Option<String>, Refused> {
        self.0.text(position).map(|text| text.map(str::to_owned)).map_err(refused)
    }

    fn number(&self, position: usize) -> Result<Option<i64>, Refused> {
        self.0.number(position).map_err(refused)
    }

    fn count(&self, position: usize) -> Result<u32, Refused> {
        Ok(self.number(position)?.and_then(|count| u32::try_from(count).ok()).unwrap_or_default())
    }

    /// A code; -1, which nothing has, if there is none.
    fn code(&self, position: usize) -> Result<i16, Refused> {
        Ok(self.number(position)?.and_then(|code| i16::try_from(code).ok()).unwrap_or(-1))
    }

    fn time(&self, position: usize) -> Result<jiff::Timestamp, Refused> {
        Ok(self.0.time(position).map_err(refused)?.unwrap_or_default())
    }

    /// What happens when the join ends, if that was set.
    fn wait(&self) -> Result<Option<JoinWait>, Refused> {
        let Some(message) = self.text(16)? else { return Ok(None) };
        let continuation = |topic: usize| {
            let (topic, payload) = (self.text(topic)?, self.text(topic + 1)?);
            Ok(topic.map(|topic| Continuation { topic, payload: payload.unwrap_or_default() }))
        };
        Ok(Some(JoinWait {
            failed_steps: match self.number(11)? {
                Some(0) => FailedSteps::Ignore,
                _ => FailedSteps::Fail,
            },
            on_complete: continuation(12)?,
            on_fail: continuation(14)?,
            message: EventId::from_row(message),
            headers: self.text(17)?,
        }))
    }
}

fn refused(what: &str) -> Refused {
    Refused::new(ErrorKind::Unexpected, format!("a join can't be read: a column {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_decide_nothing_are_not_loaded() {
        let (all, state) = (JOIN_COLUMNS.split(", ").count(), join_state_columns());
        assert_eq!(all, 18, "as many as are decoded");
        assert_eq!(state.split(", ").filter(|name| *name == "NULL").count(), CONTENTS.len());
        assert!(state.starts_with("join_id, grouping_key, ") && state.ends_with("continuation_id, NULL"));
    }
}
