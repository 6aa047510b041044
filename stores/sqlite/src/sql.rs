//! The statements, with the names of the tables put in once.

use pillarbox::model::{Layout, Record, Status, TableName};
use pillarbox::port::Select;
use rusqlite::types::{Value, ValueRef};

use crate::row::{COLUMNS, ID_IN_HEX, LEFT_OUT, LIGHT_COLUMNS, RECORD_COLUMNS, read_record};
use crate::{flowcatalyst, joins};

/// What a selection of operators has in common; parameters 1 to 6.
const MATCHES: &str = "(?2 >> status) & 1 AND (?3 IS NULL OR event_type = ?3) \
    AND (?4 IS NULL OR coalesce(aggregate_type, '__GLOBAL__') = ?4) AND (?5 IS NULL OR group_key = ?5) \
    AND (?6 IS NULL OR done_at < ?6)";

/// The same over items. A status that nobody knows has a code beyond ours, and is in no list but that of all.
const ITEM_MATCHES: &str = "(?2 >> CASE status WHEN 'COMPLETED' THEN 1 WHEN 'FAILED' THEN 3 WHEN 'PENDING' THEN \
    CASE WHEN retry_count > 0 THEN 2 ELSE 0 END WHEN 'PROCESSING' THEN CASE WHEN retry_count > 0 THEN 2 ELSE 0 END ELSE 4 END) & 1 \
    AND (?3 IS NULL OR type = ?3) AND (?4 IS NULL OR ?4 = '__GLOBAL__') AND (?5 IS NULL OR message_group = ?5) \
    AND (?6 IS NULL OR (status IN ('COMPLETED', 'FAILED') AND processed_at < ?6))";

/// The columns that a list may leave out.
const HEAVY: [&str; 3] = ["headers", "payload", "payload_bytes"];

/// The names of the tables of one outbox.
pub(crate) struct Names {
    layout: Layout,
    table: TableName,
    replacements: Vec<(&'static str, String)>,
}

impl Names {
    pub(crate) fn new(table: &TableName, layout: Layout) -> Self {
        let (event, family) = (table.as_str(), table.family());
        let (columns, light, left_out) = match layout {
            Layout::Native => (COLUMNS, LIGHT_COLUMNS, LEFT_OUT),
            Layout::Flowcatalyst => {
                (flowcatalyst::COLUMNS, flowcatalyst::LIGHT_COLUMNS, flowcatalyst::LEFT_OUT)
            }
        };
        let listed = columns.split(", ").map(|column| match HEAVY.contains(&column) {
            true => format!("CASE WHEN ?9 THEN {column} END AS {column}"),
            false => column.to_owned(),
        });
        let listed: Vec<String> = listed.collect();
        // A checked identifier needs quotes only where it is also a keyword.
        let mut replacements = vec![
            ("{event}", format!("\"{event}\"")),
            ("{event_name}", format!("'{event}'")),
            ("{meta_name}", format!("'{family}_meta'")),
            ("{slot_name}", format!("'{family}_slot'")),
            ("{attempt_event}", format!("\"{family}_attempt_event\"")),
            ("{event_status}", format!("\"idx_{event}_status\"")),
            ("{columns}", columns.to_owned()),
            ("{listed_columns}", listed.join(", ")),
            ("{light_columns}", light.to_owned()),
            ("{left_out}", left_out.to_owned()),
            ("{record_columns}", RECORD_COLUMNS.to_owned()),
            ("{join_columns}", joins::COLUMNS.to_owned()),
            ("{id_in_hex}", ID_IN_HEX.to_owned()),
        ];
        for (place, index) in [
            ("{event_pending}", "pending"),
            ("{event_message}", "message"),
            ("{event_ended}", "ended"),
            ("{event_delayed}", "delayed"),
            ("{event_queue}", "queue"),
            ("{event_topic}", "topic"),
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
            ("{join}", "join"),
            ("{join_grouping}", "join_grouping"),
            ("{join_created}", "join_created"),
            ("{join_ended}", "join_ended"),
            ("{join_member}", "join_member"),
            ("{join_member_event}", "join_member_event"),
        ] {
            replacements.push((place, format!("\"{family}_{beside}\"")));
        }
        Self { layout, table: table.clone(), replacements }
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
        if self.layout == Layout::Flowcatalyst {
            return self.selecting_items(text);
        }
        let by = |found: &str| self.statement(&text.replace("{selected}", &format!("{found} AND {MATCHES}")));
        Selecting {
            any: by("{event} WHERE ?1 IS NULL"),
            among: by("{event} WHERE event_id IN (SELECT value FROM json_each(?1))"),
            pending: by("{event} INDEXED BY {event_pending} WHERE ?1 IS NULL AND status IN (0, 2)"),
            dead: by("{event} INDEXED BY {event_ended} WHERE ?1 IS NULL AND status IN (1, 3) AND status = 3"),
        }
    }
}

impl Names {
    fn selecting_items(&self, text: &str) -> Selecting {
        let by =
            |found: &str| self.statement(&text.replace("{selected}", &format!("{found} AND {ITEM_MATCHES}")));
        Selecting {
            any: by("{event} WHERE ?1 IS NULL"),
            among: by("{event} WHERE id IN (SELECT value FROM json_each(?1))"),
            pending: by("{event} WHERE ?1 IS NULL AND status IN ('PENDING', 'PROCESSING')"),
            dead: by("{event} WHERE ?1 IS NULL AND status = 'FAILED'"),
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
    (
        native: $($name:ident),* ;
        each: $($each:ident),* ;
        items: $($item:ident),* ;
        over: $($over:ident),*
    ) => {
        /// Every statement of the store.
        pub(crate) struct Sql {
            pub(crate) layout: Layout,
            pub(crate) table: TableName,
            $(pub(crate) $name: String,)*
            $(pub(crate) $each: String,)*
            $(pub(crate) $item: String,)*
            pub(crate) count: Selecting,
            $(pub(crate) $over: Selecting,)*
        }

        impl Sql {
            pub(crate) fn new(names: &Names) -> Self {
                let each = |native: &'static str, items: &'static str| match names.layout {
                    Layout::Native => native,
                    Layout::Flowcatalyst => items,
                };
                Self {
                    layout: names.layout,
                    table: names.table.clone(),
                    $($name: names.statement(include_str!(concat!("../sql/", stringify!($name), ".sql"))),)*
                    $($each: names.statement(each(
                        include_str!(concat!("../sql/", stringify!($each), ".sql")),
                        include_str!(concat!("../sql/flowcatalyst/", stringify!($each), ".sql")),
                    )),)*
                    $($item: names.statement(include_str!(concat!("../sql/flowcatalyst/", stringify!($item), ".sql"))),)*
                    count: names.selecting(include_str!("../sql/count.sql")),
                    $($over: names.selecting(each(
                        include_str!(concat!("../sql/", stringify!($over), ".sql")),
                        include_str!(concat!("../sql/flowcatalyst/", stringify!($over), ".sql")),
                    )),)*
                }
            }
        }
    };
}

// Those under `native` are the same in both layouts, or have no meaning in the other and are never run there.
statements!(
    native: written, fetch_slots, fetch_group, claim_queue, claim_topic, claim_row, due_topics, step, delay, remember, forget, remembers, attempts,
        node_here, node_join, node_renew, node_delete, node_expired, node_publish, node_state, node_state_there, nodes, slot_take,
        slot_release, slot_drop, slot_trust, slots_free, promotable, later_due,
        renumber, sequence, sequence_draw, epoch, epoch_grow, groups, groups_named, group_show, group_block, group_hold, group_free,
        group_behind, group_forget, audit, audits, stats_beside, tables, write_lock, extend, joined, joined_there, joined_add, quarantine_there, quarantine_add, joins_here, join_start,
        join_show, join_count, join_wait, join_end, join_purge, joins, joins_grouped, joins_ended, members, members_purge,
        member_show, member_add, member_report, member_end, step_show, step_mark, reused;
    each: insert, locate, fetch_due, claim, done, done_delete, retry, dead, attempt, waits, release, slots, slots_evict, slots_sweep, first_pending,
        next_due, show, revive, discard, cancel, ended, written_before, purge, purge_any, stats_pending, stats_ended,
        stats_written, stats_dead, version, reap;
    items: item, lacking, leads, group_first, group_next, take, recover;
    over: list, list_newest, dead_matching
);

impl Sql {
    /// A time as a statement over rows takes it.
    pub(crate) fn time(&self, us: i64) -> Value {
        match self.layout {
            Layout::Native => Value::Integer(us),
            Layout::Flowcatalyst => Value::Text(flowcatalyst::text(us)),
        }
    }

    /// A time as a row has it, in microseconds.
    pub(crate) fn stored_time(&self, value: ValueRef<'_>) -> Option<i64> {
        match self.layout {
            Layout::Native => value.as_i64().ok(),
            Layout::Flowcatalyst => flowcatalyst::stored(value),
        }
    }

    /// Everything in a row, for people.
    pub(crate) fn record(&self, row: &rusqlite::Row<'_>) -> Record {
        match self.layout {
            Layout::Native => read_record(row),
            Layout::Flowcatalyst => flowcatalyst::read_record(row),
        }
    }
}

#[cfg(test)]
mod tests;
