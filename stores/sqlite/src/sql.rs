//! The statements, with the names of the tables put in once.

use pillarbox::model::{Status, TableName};
use pillarbox::port::Select;

use crate::row::{COLUMNS, RECORD_COLUMNS};

/// What a selection of operators has in common; parameters 1 to 6.
const MATCHES: &str = "(?2 >> status) & 1 AND (?3 IS NULL OR event_type = ?3) \
    AND (?4 IS NULL OR coalesce(aggregate_type, '__GLOBAL__') = ?4) AND (?5 IS NULL OR group_key = ?5) \
    AND (?6 IS NULL OR done_at < ?6)";

/// The names of the tables of one outbox.
pub(crate) struct Names {
    replacements: Vec<(&'static str, String)>,
}

impl Names {
    pub(crate) fn new(table: &TableName) -> Self {
        let (event, family) = (table.as_str(), table.family());
        // A checked identifier needs quotes only where it is also a keyword.
        let mut replacements = vec![
            ("{event}", format!("\"{event}\"")),
            ("{event_name}", format!("'{event}'")),
            ("{meta_name}", format!("'{family}_meta'")),
            ("{attempt_event}", format!("\"{family}_attempt_event\"")),
            ("{columns}", COLUMNS.to_owned()),
            ("{record_columns}", RECORD_COLUMNS.to_owned()),
        ];
        for (place, index) in [
            ("{event_pending}", "pending"),
            ("{event_message}", "message"),
            ("{event_ended}", "ended"),
            ("{event_delayed}", "delayed"),
            ("{event_queue}", "queue"),
        ] {
            replacements.push((place, format!("\"{event}_{index}\"")));
        }
        for (place, beside) in [
            ("{node}", "node"),
            ("{slot}", "slot"),
            ("{group}", "group"),
            ("{attempt}", "attempt"),
            ("{audit}", "audit"),
            ("{meta}", "meta"),
        ] {
            replacements.push((place, format!("\"{family}_{beside}\"")));
        }
        Self { replacements }
    }

    /// The text with all names put in.
    pub(crate) fn fill(&self, text: &str) -> String {
        self.replacements.iter().fold(text.to_owned(), |text, (place, name)| text.replace(place, name))
    }

    fn statement(&self, text: &str) -> String {
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("--")).collect();
        self.fill(&lines.join("\n"))
    }

    fn selecting(&self, text: &str) -> Selecting {
        let by = |found: &str| self.statement(&text.replace("{selected}", &format!("{found} AND {MATCHES}")));
        Selecting {
            any: by("{event} WHERE ?1 IS NULL"),
            among: by("{event} WHERE event_id IN (SELECT value FROM json_each(?1))"),
            pending: by("{event} INDEXED BY {event_pending} WHERE ?1 IS NULL AND status IN (0, 2)"),
            dead: by("{event} INDEXED BY {event_ended} WHERE ?1 IS NULL AND status IN (1, 3) AND status = 3"),
        }
    }
}

/// A statement over a selection, in a form for each way the rows are found.
pub(crate) struct Selecting {
    any: String,
    among: String,
    pending: String,
    dead: String,
}

impl Selecting {
    /// The form that reads the fewest rows.
    pub(crate) fn of(&self, select: &Select) -> &str {
        let only =
            |wanted: fn(&Status) -> bool| !select.statuses.is_empty() && select.statuses.iter().all(wanted);
        if !select.ids.is_empty() {
            &self.among
        } else if only(|status| status.is_pending()) {
            &self.pending
        } else if only(|status| *status == Status::Dead) {
            &self.dead
        } else {
            &self.any
        }
    }
}

macro_rules! statements {
    ($($name:ident),* ; $($over:ident),*) => {
        /// Every statement of the store.
        pub(crate) struct Sql {
            $(pub(crate) $name: String,)*
            $(pub(crate) $over: Selecting,)*
        }

        impl Sql {
            pub(crate) fn new(names: &Names) -> Self {
                Self {
                    $($name: names.statement(include_str!(concat!("../sql/", stringify!($name), ".sql"))),)*
                    $($over: names.selecting(include_str!(concat!("../sql/", stringify!($over), ".sql"))),)*
                }
            }
        }
    };
}

statements!(
    insert, written, locate, fetch_slots, fetch_group, fetch_due, claim_queue, claim, done, done_delete, retry, dead,
    delay, attempt, release, remember, forget, remembers, attempts, node_here, node_join, node_renew,
    node_delete, node_expired, nodes, slots, slot_take, slot_release, slot_drop, slots_free, slots_sweep,
    first_pending, next_due, promotable, renumber, sequence, sequence_draw, epoch, epoch_grow, groups,
    group_show, group_block, group_hold, group_free, group_behind, group_forget, audit, audits, show, revive,
    discard, cancel, ended, written_before, purge, purge_any, stats_pending, stats_ended, stats_written,
    stats_beside, stats_dead, version, tables;
    list, list_newest, count, dead_matching
);

#[cfg(test)]
mod tests;
