//! The SQL statements of a store, with its table names filled in once.

use std::sync::Arc;

use pillarbox::model::{
    COLUMNS, HEAVY_COLUMNS, HEAVY_ITEM_COLUMNS, ITEM_COLUMNS, Layout, NewColumns, TableName,
};
use pillarbox::port::{OnDone, Order};
use pillarbox_store_kit::{
    EVENT_INDEXES, JOIN_COLUMNS, Replacements, Selecting, TABLES, selected, statements,
};

use crate::flowcatalyst::ITEM_BYTES;
use crate::migrate::MIGRATIONS;
use crate::row::{LEFT_OUT, RECORD_COLUMNS, claim_bytes};

/// The group key of a row, as an SQL expression.
const GROUP_KEY: &str =
    "coalesce(message_group, coalesce(aggregate_type, '__GLOBAL__') || '/' || aggregate_id)";

const JOIN_INDEXES: [(&str, &str); 3] =
    [("{join_group}", "group"), ("{join_created}", "created"), ("{join_event}", "event")];

/// Functions beside the event table, by placeholder and suffix of the name.
const FUNCTIONS: [(&str, &str); 7] = [
    ("{join_end}", "join_end"),
    ("{join_settle}", "join_settle"),
    ("{join_attach}", "join_attach"),
    ("{join_report}", "join_report"),
    ("{join_wait}", "join_wait"),
    ("{slot_insert}", "slot_insert"),
    ("{slot_update}", "slot_update"),
];

/// The conditions that all selections of operators share, on parameters 2 to 6. Parameter 1
/// is the list of ids.
const MATCHES: &str = "status = ANY($2::smallint[]) AND ($3::text IS NULL OR event_type = $3) \
    AND ($4::text IS NULL OR coalesce(aggregate_type, '__GLOBAL__') = $4) AND ($5::text IS NULL OR {group_key} = $5) \
    AND ($6::timestamptz IS NULL OR done_at < $6)";

/// The same for items. An unknown status gets code 4, which only the list of all statuses contains.
const ITEM_MATCHES: &str = "CASE status WHEN 'COMPLETED' THEN 1 WHEN 'FAILED' THEN 3 WHEN 'PENDING' THEN \
    CASE WHEN retry_count > 0 THEN 2 ELSE 0 END WHEN 'PROCESSING' THEN CASE WHEN retry_count > 0 THEN 2 ELSE 0 END ELSE 4 END \
    = ANY($2::smallint[]) AND ($3::text IS NULL OR type = $3) AND ($4::text IS NULL OR $4 = '__GLOBAL__') \
    AND ($5::text IS NULL OR message_group = $5) \
    AND ($6::timestamptz IS NULL OR (status IN ('COMPLETED', 'FAILED') AND processed_at < $6 AT TIME ZONE 'UTC'))";

/// Skips a row whose message id exists already.
const ONCE: &str = "ON CONFLICT (message_id) WHERE message_id IS NOT NULL DO NOTHING";

/// The fence of a settle of items: locks the node's row, and finds none if the node was evicted.
const ME: &str = "me AS MATERIALIZED (SELECT 1 FROM {node} WHERE node_id = $7 FOR KEY SHARE),\n";

/// How long a settle waits for rows that others have locked, before it settles again and skips them. Skipping
/// has to lock every row first, which almost no settle needs.
const BRIEF: &str = "50ms";
/// Marks the run of the server. A server that recovers from a crash keeps its start time but resets its statistics, so
/// the later of both times is taken. Before version 15 the reset time is in a file that is slow to read.
const SERVER_RUN: &str = "greatest(pg_postmaster_start_time(), CASE \
    WHEN current_setting('server_version_num')::int >= 150000 THEN pg_stat_get_bgwriter_stat_reset_time() END)";

/// Whether a settle names the row `e`, by sequence number and id.
const PAIR: &str = "((e.seq, e.event_id) IN (SELECT o.seq, o.event_id FROM unnest($2::bigint[], $4::text[]) AS o (seq, event_id)))";

/// The same under a claim, with its token. The owner is compared beside it.
const CLAIMED_PAIR: &str = "((e.seq, e.lock_token, e.event_id) IN (SELECT o.seq, o.token, o.event_id \
    FROM unnest($2::bigint[], $5::bigint[], $4::text[]) AS o (seq, token, event_id)))";

/// What a settle under a claim tells of the rows that did not change: the rows that did, and whether a sequence
/// number belongs to another event now. Both are NULL if every row changed.
const CLAIMED_UNCHANGED: &str = "CASE WHEN (SELECT count(*) FROM changed) < cardinality($2) \
    THEN ARRAY(SELECT seq || ' ' || event_id FROM changed) END, \
    CASE WHEN (SELECT count(*) FROM changed) < cardinality($2) THEN EXISTS ( \
        SELECT 1 FROM {event} e WHERE e.seq = ANY($2) AND e.status IN (0, 2) AND {pair} IS NOT TRUE) END";

/// Fails the statement unless the changed rows `c` are exactly the rows that a settle names. Plain SQL can
/// raise an error only through a failing cast; its text appears in the server's log. The concatenation keeps
/// the planner from evaluating the cast in advance.
const AS_EXPECTED: &str = "CASE WHEN c.seqs = $2 AND c.ids = $4 THEN true ELSE ('pillarbox: outcomes differ from rows, \
    settling one by one' || coalesce(left(c.ids, 0), ''))::boolean END";

/// The same under claims, whose tokens are compared too.
const CLAIMS_AS_EXPECTED: &str = "CASE WHEN c.seqs = $2 AND c.tokens = $5 AND c.ids = $4 THEN true \
    ELSE ('pillarbox: outcomes differ from rows, settling one by one' || coalesce(left(c.ids, 0), ''))::boolean END";

/// The names of the tables of one outbox, and the parts of statements that depend on the kind of table.
pub(crate) struct Names {
    layout: Layout,
    table: TableName,
    replacements: Replacements,
    pub(crate) channel: String,
    /// Whether the builder named a schema; otherwise the connection's search path decides.
    has_schema: bool,
}

/// The number of the first text parameter of an insert; the other parameters come before it.
const FIRST_TEXT: usize = 9;
/// The same in the insert of one row that neither waits nor expires, which has no parameters for these times.
const FIRST_TEXT_OF_ONE: usize = 5;

/// Adds the lists of an insert that have one entry for each text column.
fn add_text_lists(replacements: &mut Replacements) {
    for (name, list) in [
        ("{text_columns}", NewColumns::text_list(|_, name| name.to_owned())),
        ("{text_values}", NewColumns::text_list(|_, name| format!("w.{name}"))),
        ("{text_definitions}", NewColumns::text_list(|_, name| format!("{name} text"))),
        ("{text_params}", NewColumns::text_list(|index, _| format!("${}", FIRST_TEXT_OF_ONE + index))),
        ("{text_arrays}", NewColumns::text_list(|index, _| format!("${}::text[]", FIRST_TEXT + index))),
    ] {
        replacements.add(name, list);
    }
}

impl Names {
    pub(crate) fn new(schema: Option<&TableName>, table: &TableName, layout: Layout) -> Self {
        let (event, family) = (table.as_str(), table.family());
        let within = schema.map(|schema| format!("\"{}\".", schema.as_str())).unwrap_or_default();
        // A `TableName` is validated and contains no quote.
        let full = |name: &str| format!("{within}\"{name}\"");
        let mut names = Self {
            layout,
            table: table.clone(),
            replacements: Replacements::default(),
            channel: event.to_owned(),
            has_schema: schema.is_some(),
        };
        let (columns, heavy, bytes) = names.either(
            (COLUMNS, &HEAVY_COLUMNS[..], claim_bytes()),
            (ITEM_COLUMNS, &HEAVY_ITEM_COLUMNS[..], ITEM_BYTES.to_owned()),
        );
        // Items have no sequence numbers and therefore no quarantine; their tables lack these columns.
        let (evictions, quarantined_upto) =
            names.either(("evictions", "quarantined_upto"), ("0", "0::bigint"));
        // Contents are NULL if they are too large to load at once, exceed what a claim may load, or are left
        // out of a list.
        let light = |column: &str| format!("CASE WHEN octet_length({column}) <= $1 THEN {column} END");
        let taken = |column: &str| format!("CASE WHEN {bytes} <= t.row_most THEN e.{column} END");
        let claimed =
            |column: &str| format!("CASE WHEN e.seq = ANY (whole.large) THEN NULL ELSE e.{column} END");
        let listed = |column: &str| format!("CASE WHEN $9::boolean THEN {column} END");
        let of_row = |column: &str| format!("e.{column}");
        names.replacements = Replacements::new(vec![
            ("{claimed_unchanged}", CLAIMED_UNCHANGED.to_owned()),
            ("{group_key}", GROUP_KEY.to_owned()),
            ("{event}", full(event)),
            ("{id_column}", names.either("event_id", "id").to_owned()),
            ("{event_name}", format!("'{}'", full(event))),
            ("{sequence}", full(&format!("{event}_seq"))),
            ("{sequence_name}", format!("'{}'", full(&format!("{event}_seq")))),
            ("{node_name}", format!("'{}'", full(&format!("{family}_node")))),
            ("{meta_name}", format!("'{}'", full(&format!("{family}_meta")))),
            // An index is always in the schema of its table, so its name has no schema.
            ("{attempt_event}", format!("\"{family}_attempt_event\"")),
            ("{join_columns}", JOIN_COLUMNS.to_owned()),
            ("{taken_columns}", selected(columns, heavy, of_row, taken)),
            ("{claimed_columns}", selected(columns, heavy, of_row, claimed)),
            ("{columns}", columns.to_owned()),
            ("{listed_columns}", selected(columns, heavy, str::to_owned, listed)),
            ("{light_columns}", selected(columns, heavy, str::to_owned, light)),
            ("{brief}", BRIEF.to_owned()),
            ("{as_expected}", AS_EXPECTED.to_owned()),
            ("{claims_as_expected}", CLAIMS_AS_EXPECTED.to_owned()),
            ("{pair}", PAIR.to_owned()),
            ("{claimed_pair}", CLAIMED_PAIR.to_owned()),
            ("{left_out}", format!("{LEFT_OUT} AS left_out")),
            ("{server_run}", SERVER_RUN.to_owned()),
            (
                "{sequence_file}",
                format!("pg_relation_filenode('{}'::regclass)::bigint", full(&format!("{event}_seq"))),
            ),
            ("{bytes}", bytes.clone()),
            ("{evictions}", evictions.to_owned()),
            ("{quarantined_upto}", quarantined_upto.to_owned()),
            ("{counted}", format!("CASE WHEN {bytes} <= t.row_most THEN {bytes}::int ELSE 0 END")),
            ("{event_status}", format!("\"idx_{event}_status\"")),
            ("{record_columns}", RECORD_COLUMNS.to_owned()),
        ]);
        let replacements = &mut names.replacements;
        add_text_lists(replacements);
        replacements.add_each(&EVENT_INDEXES, |index| format!("\"{event}_{index}\""));
        replacements.add_each(&JOIN_INDEXES, |index| format!("\"{family}_join_{index}\""));
        for beside in [&TABLES[..], &FUNCTIONS] {
            replacements.add_each(beside, |name| full(&format!("{family}_{name}")));
        }
        let searched = schema.map(|schema| format!("'{}'", schema.as_str()));
        replacements
            .add("{searched_schema}", searched.unwrap_or_else(|| "current_schema()::text".to_owned()));
        if let Some(schema) = schema {
            replacements.add("{schema}", format!("\"{}\"", schema.as_str()));
            replacements.add("{schema_name}", format!("'\"{}\"'", schema.as_str()));
        }
        names
    }

    /// Picks the value for this kind of table.
    fn either<T>(&self, native: T, items: T) -> T {
        self.layout.either(native, items)
    }

    /// A script that people may read and run, with its comments.
    fn script(&self, text: &str) -> String {
        self.replacements.fill(text)
    }

    /// A script that exists only if a schema was named.
    fn schema_script(&self, text: &str) -> Option<String> {
        self.has_schema.then(|| self.script(text))
    }

    fn statement(&self, text: &str) -> Arc<str> {
        self.replacements.statement(text).into()
    }

    /// A statement on columns or tables that only the native table has.
    fn native(&self, text: &str) -> Option<Arc<str>> {
        self.either(Some(self.statement(text)), None)
    }

    fn inserting(&self, text: &str) -> Inserting {
        Inserting {
            plain: self.statement(&text.replace("{once}", "")),
            once: self.statement(&text.replace("{once}", ONCE)),
        }
    }

    /// A settle in three forms, one for each way to treat locked rows.
    fn settling(&self, text: &str, on_done: OnDone) -> Settling {
        let form = |locked: &str| self.statement(&form(text, &[locked, word(on_done)]));
        Settling { waiting: form("waiting"), brief: form("brief"), skipping: form("skipping") }
    }

    fn settle(&self, text: &str) -> ByOnDone<Settling> {
        ByOnDone { keep: self.settling(text, OnDone::Keep), delete: self.settling(text, OnDone::Delete) }
    }

    fn settle_items(&self, text: &str) -> ByOnDone<ItemSettling> {
        let settling = |on_done| {
            let text = form(text, &[word(on_done)]);
            let form = |me: &str, by: &str, held: &str| {
                self.statement(&text.replace("{me}", me).replace("{by}", by).replace("{held}", held))
            };
            let by_node = form(ME, "me, ", "EXISTS (SELECT 1 FROM me)");
            ItemSettling { by_any: form("", "", "true"), by_node }
        };
        ByOnDone { keep: settling(OnDone::Keep), delete: settling(OnDone::Delete) }
    }

    fn purging(&self, text: &str) -> Purging {
        let alone = self.either(None, Some(self.statement(&form(text, &[]))));
        Purging { held: self.statement(&form(text, &["held"])), alone }
    }

    fn claiming(&self, text: &str) -> Claiming {
        let form = |part: &str| self.statement(&form(text, &[part]));
        Claiming { all: form("all"), one: form("one"), several: form("several") }
    }

    fn taking(&self, text: &str) -> Taking {
        let form = |part: &str| self.statement(&form(text, &[part]));
        Taking { ordered: form("ordered"), parallel: form("parallel") }
    }

    fn selecting(&self, text: &str) -> Selecting<Arc<str>> {
        let (id, pending, dead, matches) = self.either(
            ("event_id", "status IN (0, 2)", "status IN (1, 3) AND status = 3", MATCHES),
            ("id", "status IN ('PENDING', 'PROCESSING')", "status = 'FAILED'", ITEM_MATCHES),
        );
        let by = |found: &str| {
            self.statement(&text.replace("{selected}", &format!("{{event}} WHERE {found} AND {matches}")))
        };
        Selecting {
            any: by("$1::text[] IS NULL"),
            among: by(&format!("{id} = ANY($1::text[])")),
            pending: by(&format!("$1::text[] IS NULL AND {pending}")),
            dead: by(&format!("$1::text[] IS NULL AND {dead}")),
        }
    }
}

/// An insert in two forms: a cheaper one for rows without message ids, and one
/// that skips existing message ids.
pub(crate) struct Inserting {
    plain: Arc<str>,
    once: Arc<str>,
}

impl Inserting {
    /// The form for these rows.
    pub(crate) fn of(&self, rows: &[NewColumns<'_>]) -> &Arc<str> {
        if rows.iter().any(|row| row.event.message_id().is_some()) { &self.once } else { &self.plain }
    }
}

/// What a settle does with rows that others have locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locked {
    /// Waits for them. Used in the user's transactions, whose settings the store must not change.
    Awaited,
    /// Waits for a moment, then fails.
    Briefly,
    /// Skips them and reports them as busy.
    Skipped,
}

/// A settle, with one form per variant of [`Locked`].
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

/// A settle of items: by any caller that knows the tokens, or under a node's fence.
pub(crate) struct ItemSettling {
    pub(crate) by_any: Arc<str>,
    pub(crate) by_node: Arc<str>,
}

/// Selects the lines of one form of a text: all lines without a marker, and lines marked
/// `{if PART}` for these parts.
fn form(text: &str, parts: &[&str]) -> String {
    let line = |line: &str| match line.strip_prefix("{if ").and_then(|rest| rest.split_once('}')) {
        None => Some(line.to_owned()),
        Some((part, line)) => parts.contains(&part).then(|| line.to_owned()),
    };
    text.lines().filter_map(line).collect::<Vec<_>>().join("\n")
}

/// The marker of the form that keeps or deletes done rows. The form that keeps rows contains no DELETE,
/// because the server demands the privilege even for a DELETE that never runs.
const fn word(on_done: OnDone) -> &'static str {
    match on_done {
        OnDone::Keep => "keeping",
        OnDone::Delete => "deleting",
    }
}

/// A statement in two forms: one keeps done rows, one deletes them.
pub(crate) struct ByOnDone<T> {
    keep: T,
    delete: T,
}

impl<T> ByOnDone<T> {
    pub(crate) const fn of(&self, on_done: OnDone) -> &T {
        match on_done {
            OnDone::Keep => &self.keep,
            OnDone::Delete => &self.delete,
        }
    }
}

/// A purge, which keeps the heads of held groups.
pub(crate) struct Purging {
    pub(crate) held: Arc<str>,
    /// The form for a table of items without our tables beside it, where no group can be held.
    pub(crate) alone: Option<Arc<str>>,
}

/// A claim of messages in three forms: of all topics, of one topic, and of several.
pub(crate) struct Claiming {
    pub(crate) all: Arc<str>,
    pub(crate) one: Arc<str>,
    pub(crate) several: Arc<str>,
}

/// A take in two forms: items without a group are taken in order, or in parallel.
pub(crate) struct Taking {
    ordered: Arc<str>,
    parallel: Arc<str>,
}

impl Taking {
    pub(crate) const fn of(&self, ungrouped: Order) -> &Arc<str> {
        match ungrouped {
            Order::PerGroup => &self.ordered,
            Order::None => &self.parallel,
        }
    }
}

// Statements under `one` are the same for both kinds of tables, or belong to one kind and
// never run on the other.
statements! {
    /// Every statement of the store.
    pub(crate) struct Sql(names: &Names) {
        table: TableName = names.table.clone(),
        names: Replacements = names.replacements.clone(),
        /// The migrations as scripts, with their comments.
        migrations: Vec<String> = MIGRATIONS.iter().map(|text| names.script(text)).collect(),
    }
    one statement -> Arc<str> {
        rows: written, alive, notify, fetch_slots, fetch_ranges, fetch_group, fetch_due, fetch_large, horizon, clock, next_due,
            later_due, promote;
        claim: claim, due_topics, reap;
        settle: done, done_whole, done_delete, done_delete_whole, claimed_done, claimed_done_whole, claimed_done_delete,
            claimed_done_delete_whole, claimed_renew;
        membership: membership_lock, members, heartbeat, node_register, node_renew, node_leave, node_left, node_publish, slots_take,
            slots_release;
        joins: join_start, join_attach, join_report, join_wait, join_cancel, join_show, join_list, join_list_grouped;
        operate: groups, groups_named, group_show, group_hold, group_free, epoch, epoch_grow, purge_turn, audit, audits;
        inspect: nodes, open_transactions, stats_beside;
        schema: migrate_lock, tables, searched_schema, step, node_state_there, page_room_there, rights;
        items: lacking, recover, node_share, group_block;
    }
    each statement -> Arc<str> {
        membership: node_evict, waiting;
        operate: revive, cancel;
        inspect: show, stats_pending, stats_ended, stats_dead;
        schema: version;
    }
    one native -> Option<Arc<str>> { membership: slots_trust, slots_sweep; inspect: attempts; }
    each inserting -> Inserting { rows: insert, insert_many, insert_json; }
    one settle -> ByOnDone<Settling> { settle: settle; }
    one settle_items -> ByOnDone<ItemSettling> { items: items_settle; }
    one claiming -> Claiming { claim: claim_queue; }
    one taking -> Taking { items: take; }
    each purging -> Purging { operate: purge, purge_any; }
    one selecting -> Selecting<Arc<str>> { inspect: count; }
    each selecting -> Selecting<Arc<str>> { operate: replay, discard; inspect: list, list_newest; }
    one script -> String { schema: node_state, page_room; items: create_items, create_beside; }
    one schema_script -> Option<String> { schema: schema; }
}

impl Sql {
    /// Marks or deletes done rows, all of them or none.
    pub(crate) const fn done_whole(&self, on_done: OnDone) -> &Arc<str> {
        match on_done {
            OnDone::Keep => &self.done_whole,
            OnDone::Delete => &self.done_delete_whole,
        }
    }

    /// Marks or deletes done rows under a claim.
    pub(crate) const fn claimed_done(&self, on_done: OnDone) -> &Arc<str> {
        match on_done {
            OnDone::Keep => &self.claimed_done,
            OnDone::Delete => &self.claimed_done_delete,
        }
    }

    /// Marks or deletes done rows under a claim, all of them or none.
    pub(crate) const fn claimed_done_whole(&self, on_done: OnDone) -> &Arc<str> {
        match on_done {
            OnDone::Keep => &self.claimed_done_whole,
            OnDone::Delete => &self.claimed_done_delete_whole,
        }
    }

    /// Marks or deletes done rows one by one, and skips rows that others have locked.
    pub(crate) const fn done(&self, on_done: OnDone) -> &Arc<str> {
        match on_done {
            OnDone::Keep => &self.done,
            OnDone::Delete => &self.done_delete,
        }
    }
}
