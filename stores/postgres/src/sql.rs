//! The statements, with the names of the tables put in once.

use std::sync::Arc;

use pillarbox::model::{Status, TableName};
use pillarbox::port::Select;

use crate::insert::Values;
use crate::row::{COLUMNS, RECORD_COLUMNS};

/// The group of a row.
const GROUP_KEY: &str =
    "coalesce(message_group, coalesce(aggregate_type, '__GLOBAL__') || '/' || aggregate_id)";

/// What a selection of operators has in common; parameters 1 to 6.
const MATCHES: &str = "status = ANY($2::smallint[]) AND ($3::text IS NULL OR event_type = $3) \
    AND ($4::text IS NULL OR coalesce(aggregate_type, '__GLOBAL__') = $4) AND ($5::text IS NULL OR {group_key} = $5) \
    AND ($6::timestamptz IS NULL OR done_at < $6)";

/// A message id that is there already adds nothing.
const ONCE: &str = "ON CONFLICT (message_id) WHERE message_id IS NOT NULL DO NOTHING";

/// The names of the tables of one outbox.
pub(crate) struct Names {
    replacements: Vec<(&'static str, String)>,
    pub(crate) channel: String,
    /// Whether a schema was named; else it is the connection's.
    pub(crate) has_schema: bool,
}

impl Names {
    pub(crate) fn new(schema: Option<&TableName>, table: &TableName) -> Self {
        let (event, family) = (table.as_str(), table.family());
        let within = schema.map(|schema| format!("\"{}\".", schema.as_str())).unwrap_or_default();
        // Checked identifiers hold no quote.
        let full = |name: &str| format!("{within}\"{name}\"");
        let taken: Vec<String> = COLUMNS.split(", ").map(|column| format!("e.{column}")).collect();
        let mut replacements = vec![
            ("{group_key}", GROUP_KEY.to_owned()),
            ("{event}", full(event)),
            ("{event_name}", format!("'{}'", full(event))),
            ("{sequence}", full(&format!("{event}_seq"))),
            ("{sequence_name}", format!("'{}'", full(&format!("{event}_seq")))),
            ("{node_name}", format!("'{}'", full(&format!("{family}_node")))),
            ("{meta_name}", format!("'{}'", full(&format!("{family}_meta")))),
            // An index is in the schema of its table.
            ("{attempt_event}", format!("\"{family}_attempt_event\"")),
            ("{taken_columns}", taken.join(", ")),
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
            replacements.push((place, full(&format!("{family}_{beside}"))));
        }
        if let Some(schema) = schema {
            replacements.push(("{schema}", format!("\"{}\"", schema.as_str())));
            replacements.push(("{schema_name}", format!("'\"{}\"'", schema.as_str())));
        }
        Self { replacements, channel: event.to_owned(), has_schema: schema.is_some() }
    }

    /// The text with all names put in.
    pub(crate) fn fill(&self, text: &str) -> String {
        self.replacements.iter().fold(text.to_owned(), |text, (place, name)| text.replace(place, name))
    }

    fn statement(&self, text: &str) -> Arc<str> {
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("--")).collect();
        self.fill(&lines.join("\n")).into()
    }

    fn inserting(&self, text: &str) -> Inserting {
        Inserting {
            plain: self.statement(&text.replace("{once}", "")),
            once: self.statement(&text.replace("{once}", ONCE)),
        }
    }

    fn selecting(&self, text: &str) -> Selecting {
        let by = |found: &str| self.statement(&text.replace("{selected}", &format!("{found} AND {MATCHES}")));
        Selecting {
            any: by("{event} WHERE $1::text[] IS NULL"),
            among: by("{event} WHERE event_id = ANY($1::text[])"),
            pending: by("{event} WHERE $1::text[] IS NULL AND status IN (0, 2)"),
            dead: by("{event} WHERE $1::text[] IS NULL AND status IN (1, 3) AND status = 3"),
        }
    }
}

/// An insert, in a form for rows without a message id, which is cheaper, and one for rows with one.
pub(crate) struct Inserting {
    plain: Arc<str>,
    once: Arc<str>,
}

impl Inserting {
    /// The form for these rows.
    pub(crate) fn of(&self, rows: &[Values<'_>]) -> &Arc<str> {
        if rows.iter().any(|row| row.message_id.is_some()) { &self.once } else { &self.plain }
    }
}

/// A statement over a selection, in a form for each way the rows are found.
pub(crate) struct Selecting {
    any: Arc<str>,
    among: Arc<str>,
    pending: Arc<str>,
    dead: Arc<str>,
}

impl Selecting {
    /// The form that reads the fewest rows.
    pub(crate) fn of(&self, select: &Select) -> &Arc<str> {
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
    ($($name:ident),* ; $($added:ident),* ; $($over:ident),*) => {
        /// Every statement of the store.
        pub(crate) struct Sql {
            $(pub(crate) $name: Arc<str>,)*
            $(pub(crate) $added: Inserting,)*
            $(pub(crate) $over: Selecting,)*
        }

        impl Sql {
            pub(crate) fn new(names: &Names) -> Self {
                Self {
                    $($name: names.statement(include_str!(concat!("../sql/", stringify!($name), ".sql"))),)*
                    $($added: names.inserting(include_str!(concat!("../sql/", stringify!($added), ".sql"))),)*
                    $($over: names.selecting(include_str!(concat!("../sql/", stringify!($over), ".sql"))),)*
                }
            }
        }
    };
}

statements!(
    written, alive, horizon, fetch_slots, fetch_ranges, fetch_group, fetch_due, clock, claim_queue, claim, done,
    done_delete, settle, attempts, membership_lock, node_join, node_renew, node_bury, node_leave, nodes, members, beat, waiting,
    slots_take, slots_release, slots_sweep, next_due, promote, epoch, epoch_grow, groups,
    group_show, group_hold, group_free, audit, audits, show, revive, cancel, purge, purge_any, stats_pending,
    stats_ended, stats_written, stats_beside, stats_dead, migrate_lock, tables, version, notify;
    insert, insert_many, insert_json;
    list, list_newest, count, replay, discard
);
