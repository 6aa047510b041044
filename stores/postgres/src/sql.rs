//! The statements, with the names of the tables put in once.

use std::sync::Arc;

use pillarbox::model::{Layout, NewRow, Record, Status, TableName, flowcatalyst::NewItem};
use pillarbox::port::{ErrorKind, OnDone, Order, Select};
use sqlx::postgres::PgRow;

use crate::error::Failure;
use crate::flowcatalyst;
use crate::insert::Values;
use crate::joins::JOIN_COLUMNS;
use crate::row::{CLAIM_BYTES, COLUMNS, LEFT_OUT, LIGHT_COLUMNS, RECORD_COLUMNS, read_record};

/// The group of a row.
const GROUP_KEY: &str =
    "coalesce(message_group, coalesce(aggregate_type, '__GLOBAL__') || '/' || aggregate_id)";

/// What a selection of operators has in common; parameters 1 to 6.
const MATCHES: &str = "status = ANY($2::smallint[]) AND ($3::text IS NULL OR event_type = $3) \
    AND ($4::text IS NULL OR coalesce(aggregate_type, '__GLOBAL__') = $4) AND ($5::text IS NULL OR {group_key} = $5) \
    AND ($6::timestamptz IS NULL OR done_at < $6)";

/// The same over items. A status that nobody knows has a code beyond ours, and is in no list but that of all.
const ITEM_MATCHES: &str = "CASE status WHEN 'COMPLETED' THEN 1 WHEN 'FAILED' THEN 3 WHEN 'PENDING' THEN \
    CASE WHEN retry_count > 0 THEN 2 ELSE 0 END WHEN 'PROCESSING' THEN CASE WHEN retry_count > 0 THEN 2 ELSE 0 END ELSE 4 END \
    = ANY($2::smallint[]) AND ($3::text IS NULL OR type = $3) AND ($4::text IS NULL OR $4 = '__GLOBAL__') \
    AND ($5::text IS NULL OR message_group = $5) \
    AND ($6::timestamptz IS NULL OR (status IN ('COMPLETED', 'FAILED') AND processed_at < $6 AT TIME ZONE 'UTC'))";

/// A message id that is there already adds nothing.
const ONCE: &str = "ON CONFLICT (message_id) WHERE message_id IS NOT NULL DO NOTHING";

/// The node that settles items, while it is a member.
const ME: &str = "me AS MATERIALIZED (SELECT 1 FROM {node} WHERE node_id = $7 FOR KEY SHARE),\n";

/// How long a settle waits for rows that others have locked, before it skips them. Skipping takes a lock on every row first, which
/// nearly no settle needs.
const BRIEF: &str = "50ms";

/// The columns that are left out where a row is too large.
const HEAVY: [&str; 3] = ["headers", "payload", "payload_bytes"];

/// The names of the tables of one outbox.
pub(crate) struct Names {
    layout: Layout,
    table: TableName,
    replacements: Vec<(&'static str, String)>,
    pub(crate) channel: String,
    /// Whether a schema was named; else it is the connection's.
    pub(crate) has_schema: bool,
}

impl Names {
    pub(crate) fn new(schema: Option<&TableName>, table: &TableName, layout: Layout) -> Self {
        let (event, family) = (table.as_str(), table.family());
        let within = schema.map(|schema| format!("\"{}\".", schema.as_str())).unwrap_or_default();
        // Checked identifiers hold no quote.
        let full = |name: &str| format!("{within}\"{name}\"");
        let (columns, light, left_out, bytes, heavy) = match layout {
            Layout::Native => (COLUMNS, LIGHT_COLUMNS, LEFT_OUT, CLAIM_BYTES, &HEAVY[..]),
            Layout::Flowcatalyst => (
                flowcatalyst::COLUMNS,
                flowcatalyst::LIGHT_COLUMNS,
                flowcatalyst::LEFT_OUT,
                flowcatalyst::ITEM_BYTES,
                &flowcatalyst::HEAVY[..],
            ),
        };
        // Rows without numbers have no quarantine, and their tables no columns for it.
        let (evictions, quarantined_upto) = match layout {
            Layout::Native => ("evictions", "quarantined_upto"),
            Layout::Flowcatalyst => ("0", "0::bigint"),
        };
        let taken = columns.split(", ").map(|column| match heavy.contains(&column) {
            true => format!("CASE WHEN {bytes} <= t.row_most THEN e.{column} END AS {column}"),
            false => format!("e.{column}"),
        });
        let taken: Vec<String> = taken.collect();
        let listed = columns.split(", ").map(|column| match heavy.contains(&column) {
            true => format!("CASE WHEN $9::boolean THEN {column} END AS {column}"),
            false => column.to_owned(),
        });
        let listed: Vec<String> = listed.collect();
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
            ("{join_columns}", JOIN_COLUMNS.to_owned()),
            ("{taken_columns}", taken.join(", ")),
            ("{columns}", columns.to_owned()),
            ("{listed_columns}", listed.join(", ")),
            ("{light_columns}", light.to_owned()),
            ("{left_out}", left_out.to_owned()),
            ("{bytes}", bytes.to_owned()),
            ("{evictions}", evictions.to_owned()),
            ("{quarantined_upto}", quarantined_upto.to_owned()),
            ("{counted}", format!("CASE WHEN {bytes} <= t.row_most THEN {bytes}::int ELSE 0 END")),
            ("{event_status}", format!("\"idx_{event}_status\"")),
            ("{record_columns}", RECORD_COLUMNS.to_owned()),
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
        for (place, index) in
            [("{join_group}", "group"), ("{join_created}", "created"), ("{join_event}", "event")]
        {
            replacements.push((place, format!("\"{family}_join_{index}\"")));
        }
        for (place, beside) in [
            ("{node}", "node"),
            ("{slot}", "slot"),
            ("{group}", "group"),
            ("{attempt}", "attempt"),
            ("{audit}", "audit"),
            ("{meta}", "meta"),
            ("{join}", "join"),
            ("{join_member}", "join_member"),
            ("{join_end}", "join_end"),
            ("{join_settle}", "join_settle"),
            ("{join_attach}", "join_attach"),
            ("{join_report}", "join_report"),
            ("{join_wait}", "join_wait"),
        ] {
            replacements.push((place, full(&format!("{family}_{beside}"))));
        }
        if let Some(schema) = schema {
            replacements.push(("{schema}", format!("\"{}\"", schema.as_str())));
            replacements.push(("{schema_name}", format!("'\"{}\"'", schema.as_str())));
        }
        let (channel, has_schema) = (event.to_owned(), schema.is_some());
        Self { layout, table: table.clone(), replacements, channel, has_schema }
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

    /// A settle, in a form for each way to meet locked rows.
    fn settling(&self, text: &str, on_done: OnDone) -> Settling {
        let form =
            |locked: &str| self.statement(&form(text, &[locked, word(on_done)]).replace("{brief}", BRIEF));
        Settling { waiting: form("waiting"), brief: form("brief"), skipping: form("skipping") }
    }

    fn settling_items(&self, on_done: OnDone) -> ItemSettling {
        let text = form(include_str!("../sql/flowcatalyst/settle.sql"), &[word(on_done)]);
        let form = |me: &str, by: &str, held: &str| {
            self.statement(&text.replace("{me}", me).replace("{by}", by).replace("{held}", held))
        };
        ItemSettling { by_any: form("", "", "true"), by_node: form(ME, "me, ", "EXISTS (SELECT 1 FROM me)") }
    }

    fn selecting(&self, text: &str) -> Selecting {
        let matches = match self.layout {
            Layout::Native => MATCHES,
            Layout::Flowcatalyst => ITEM_MATCHES,
        };
        let by = |found: &str| self.statement(&text.replace("{selected}", &format!("{found} AND {matches}")));
        if self.layout == Layout::Flowcatalyst {
            return Selecting {
                any: by("{event} WHERE $1::text[] IS NULL"),
                among: by("{event} WHERE id = ANY($1::text[])"),
                pending: by("{event} WHERE $1::text[] IS NULL AND status IN ('PENDING', 'PROCESSING')"),
                dead: by("{event} WHERE $1::text[] IS NULL AND status = 'FAILED'"),
            };
        }
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

/// What a settle does with rows that others have locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locked {
    /// It waits for them: in a transaction of the user's, whose settings are not ours to change.
    Awaited,
    /// It waits for a moment and fails.
    Briefly,
    /// It skips them.
    Skipped,
}

/// A settle, in a form for each of these.
pub(crate) struct Settling {
    waiting: Arc<str>,
    brief: Arc<str>,
    skipping: Arc<str>,
}

impl Settling {
    pub(crate) fn of(&self, locked: Locked) -> &Arc<str> {
        match locked {
            Locked::Awaited => &self.waiting,
            Locked::Briefly => &self.brief,
            Locked::Skipped => &self.skipping,
        }
    }
}

/// A settle of items by anyone who knows their claims, or by a node.
pub(crate) struct ItemSettling {
    pub(crate) by_any: Arc<str>,
    pub(crate) by_node: Arc<str>,
}

/// The lines of a text that are for all of its forms, or for one of these parts: those begin with `{if PART}`.
fn form(text: &str, parts: &[&str]) -> String {
    let line = |line: &str| match line.strip_prefix("{if ").and_then(|rest| rest.split_once('}')) {
        None => Some(line.to_owned()),
        Some((part, line)) => parts.contains(&part).then(|| line.to_owned()),
    };
    text.lines().filter_map(line).collect::<Vec<_>>().join("\n")
}

/// A statement that deletes nothing has no DELETE in it either: the server asks for the right to it all the same.
const fn word(on_done: OnDone) -> &'static str {
    match on_done {
        OnDone::Keep => "keeping",
        OnDone::Delete => "deleting",
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
    (
        native: $($name:ident),* ;
        each: $($each:ident),* ;
        items: $($item:ident),* ;
        added: $($added:ident),* ;
        over: $($over:ident),*
    ) => {
        /// Every statement of the store.
        pub(crate) struct Sql {
            pub(crate) layout: Layout,
            pub(crate) table: TableName,
            full: Vec<(&'static str, String)>,
            $(pub(crate) $name: Arc<str>,)*
            $(pub(crate) $each: Arc<str>,)*
            $(pub(crate) $item: Arc<str>,)*
            $(pub(crate) $added: Inserting,)*
            done: Settling,
            done_delete: Settling,
            settle: Settling,
            settle_delete: Settling,
            items_settle: ItemSettling,
            items_settle_delete: ItemSettling,
            take: Arc<str>,
            take_parallel: Arc<str>,
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
                    full: names.replacements.clone(),
                    $($name: names.statement(include_str!(concat!("../sql/", stringify!($name), ".sql"))),)*
                    $($each: names.statement(each(
                        include_str!(concat!("../sql/", stringify!($each), ".sql")),
                        include_str!(concat!("../sql/flowcatalyst/", stringify!($each), ".sql")),
                    )),)*
                    $($item: names.statement(include_str!(concat!("../sql/flowcatalyst/", stringify!($item), ".sql"))),)*
                    $($added: names.inserting(each(
                        include_str!(concat!("../sql/", stringify!($added), ".sql")),
                        include_str!(concat!("../sql/flowcatalyst/", stringify!($added), ".sql")),
                    )),)*
                    done: names.settling(include_str!("../sql/done.sql"), OnDone::Keep),
                    done_delete: names.settling(include_str!("../sql/done_delete.sql"), OnDone::Delete),
                    settle: names.settling(include_str!("../sql/settle.sql"), OnDone::Keep),
                    settle_delete: names.settling(include_str!("../sql/settle.sql"), OnDone::Delete),
                    items_settle: names.settling_items(OnDone::Keep),
                    items_settle_delete: names.settling_items(OnDone::Delete),
                    take: names.statement(&form(include_str!("../sql/flowcatalyst/take.sql"), &["ordered"])),
                    take_parallel: names.statement(&form(include_str!("../sql/flowcatalyst/take.sql"), &["parallel"])),
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
    native: written, alive, horizon, fetch_slots, fetch_ranges, fetch_group, fetch_large, clock, claim_queue, claim_topics, due_topics, step,
        attempts, membership_lock, node_join, node_renew, node_leave, node_publish, node_state, node_state_there, nodes, rights,
        members, beat, slots_take, slots_release, slots_trust,
        next_due, later_due, promote, epoch, epoch_grow, groups, groups_named, group_show, group_hold, group_free, audit, audits, stats_beside,
        migrate_lock, purge_turn, tables, notify, join_start, join_attach, join_report, join_wait, join_cancel, join_show, join_list,
        join_list_grouped;
    each: fetch_due, claim, reap, waiting, node_bury, slots_sweep, show, revive, cancel, purge, purge_any, stats_pending, stats_ended,
        stats_written, stats_dead, version;
    items: node_share, group_block, lacking, recover, fetch_large_items;
    added: insert, insert_many, insert_json;
    over: list, list_newest, replay, discard
);

impl Sql {
    /// The full name of a table, by its place in statements.
    pub(crate) fn full(&self, table: &str) -> String {
        let name = self.full.iter().find(|(place, _)| place.trim_matches(['{', '}']) == table);
        name.map(|(_, name)| name.clone()).unwrap_or_default()
    }

    /// Marks or deletes rows that are done.
    pub(crate) fn done(&self, on_done: OnDone) -> &Settling {
        match on_done {
            OnDone::Keep => &self.done,
            OnDone::Delete => &self.done_delete,
        }
    }

    /// Applies outcomes of every kind.
    pub(crate) fn settle(&self, on_done: OnDone) -> &Settling {
        match on_done {
            OnDone::Keep => &self.settle,
            OnDone::Delete => &self.settle_delete,
        }
    }

    /// The same over items.
    pub(crate) fn items_settle(&self, on_done: OnDone) -> &ItemSettling {
        match on_done {
            OnDone::Keep => &self.items_settle,
            OnDone::Delete => &self.items_settle_delete,
        }
    }

    /// Takes items, by whether those without a group keep their order.
    pub(crate) fn take(&self, ungrouped: Order) -> &Arc<str> {
        match ungrouped {
            Order::PerGroup => &self.take,
            Order::None => &self.take_parallel,
        }
    }

    /// Everything in a row, for people.
    pub(crate) fn record(&self, row: &PgRow) -> Record {
        match self.layout {
            Layout::Native => read_record(row),
            Layout::Flowcatalyst => flowcatalyst::read_record(row),
        }
    }

    /// Refuses rows that the tables have no columns for.
    pub(crate) fn admit(&self, rows: &[NewRow]) -> Result<(), Failure> {
        match self.layout {
            Layout::Native => Ok(()),
            Layout::Flowcatalyst => NewItem::of_rows(rows, &self.table)
                .map(drop)
                .map_err(|invalid| Failure::Refused(ErrorKind::InvalidInput, invalid.to_string())),
        }
    }
}
