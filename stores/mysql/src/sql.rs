//! The SQL statements of one dialect: table names are filled in once, values that cannot be bound at each call.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use pillarbox::model::{
    COLUMNS, HEAVY_COLUMNS, HEAVY_ITEM_COLUMNS, ITEM_COLUMNS, Layout, NewColumns, TableName,
};
use pillarbox::port::Contents;
use pillarbox_store_kit::{JOIN_COLUMNS, Replacements, TABLES, join_state_columns, selected, statements};

use crate::dialect::Dialect;
use crate::flowcatalyst;
use crate::migrate::MIGRATIONS;
use crate::row::{CLAIM_TAIL, LEFT_OUT, RECORD_COLUMNS};

/// The SQL expression for the group of a row.
pub(crate) const GROUP_KEY: &str =
    "coalesce(message_group, concat(coalesce(aggregate_type, '__GLOBAL__'), '/', aggregate_id))";

/// Makes texts compare by bytes. Each server reads the comment that is meant for it: MySQL and TiDB the
/// first, MariaDB the second.
const BY_BYTES: &str = "/*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */";

/// At most this many consecutive numbers are listed one by one instead of as a range.
const SHORT_RUN: i64 = 3;

/// The names of the tables of one outbox.
pub(crate) struct Names {
    layout: Layout,
    dialect: Dialect,
    table: TableName,
    replacements: Replacements,
}

impl Names {
    pub(crate) fn new(table: &TableName, layout: Layout, dialect: Dialect) -> Self {
        let (event, family) = (table.as_str(), table.family());
        // Table names are checked to contain no quote.
        let full = |name: &str| format!("`{name}`");
        let mut names = Self { layout, dialect, table: table.clone(), replacements: Replacements::default() };
        let (columns, heavy, left_out) = names.either(
            (COLUMNS, &HEAVY_COLUMNS[..], LEFT_OUT),
            (ITEM_COLUMNS, &HEAVY_ITEM_COLUMNS[..], flowcatalyst::LEFT_OUT),
        );
        // Contents that are too large to load with the other rows are returned as NULL.
        let light = |column: &str| format!("CASE WHEN length({column}) <= {{most}} THEN {column} END");
        names.replacements = Replacements::new(vec![
            ("{group_key}", GROUP_KEY.to_owned()),
            ("{by_bytes}", BY_BYTES.to_owned()),
            ("{event}", full(event)),
            ("{meta_name}", format!("'{family}_meta'")),
            ("{event_name}", format!("'{event}'")),
            ("{slot_name}", format!("'{family}_slot'")),
            ("{event_status}", format!("`idx_{event}_status`")),
            ("{columns}", columns.to_owned()),
            ("{text_columns}", NewColumns::text_list(|_, name| name.to_owned())),
            ("{light_columns}", selected(columns, heavy, str::to_owned, light)),
            ("{left_out}", left_out.to_owned()),
            ("{claim_tail}", CLAIM_TAIL.to_owned()),
            ("{record_columns}", RECORD_COLUMNS.to_owned()),
            ("{join_columns}", JOIN_COLUMNS.to_owned()),
            ("{join_state}", join_state_columns()),
        ]);
        names.replacements.add_each(&TABLES, |table| full(&format!("{family}_{table}")));
        names
    }

    /// Chooses by the layout of these tables.
    fn either<T>(&self, native: T, items: T) -> T {
        self.layout.either(native, items)
    }

    /// A script for people, with its comments.
    fn script(&self, text: &str) -> String {
        self.dialect.adapt(self.replacements.fill(text))
    }

    fn statement(&self, text: &str) -> Arc<str> {
        self.dialect.adapt(self.replacements.statement(text)).into()
    }
}

/// Fills in the parts that differ from call to call: numbers, times, placeholder lists, and ids and names as
/// hex. Never pass foreign text as it is.
pub(crate) fn fill(statement: &str, parts: &[(&str, String)]) -> String {
    parts.iter().fold(statement.to_owned(), |text, (place, part)| text.replace(place, part))
}

/// This many placeholders for values.
pub(crate) fn places(count: usize) -> String {
    vec!["?"; count].join(", ")
}

/// The columns of a list, with NULL for contents that were not requested.
pub(crate) fn listed(columns: &str, contents: Contents) -> String {
    match contents {
        Contents::Whole => columns.to_owned(),
        Contents::LeftOut => selected(columns, &HEAVY_COLUMNS, str::to_owned, |_| "NULL".to_owned()),
    }
}

/// Numbers as an SQL list. An empty list becomes a number that no row has.
pub(crate) fn list<T: std::fmt::Display>(numbers: impl IntoIterator<Item = T>) -> String {
    let texts: Vec<String> = numbers.into_iter().map(|number| number.to_string()).collect();
    if texts.is_empty() { "-9".to_owned() } else { texts.join(", ") }
}

/// A text as an SQL literal in hex, so that no character can end the literal.
pub(crate) fn quoted(text: &str) -> String {
    let digits: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("_utf8mb4 X'{digits}'")
}

/// Texts as an SQL list. An empty list becomes NULL, which equals nothing.
pub(crate) fn quoted_list<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let texts: Vec<String> = texts.into_iter().map(quoted).collect();
    if texts.is_empty() { "NULL".to_owned() } else { texts.join(", ") }
}

/// The condition for rows by sequence number, all of which exist and are locked by this transaction.
///
/// Consecutive numbers become a range, which costs the server less. The range leaves out the last
/// of them, which is listed singly: a server that also locks the row after a range then finds that
/// row, never one of others.
pub(crate) fn locked_rows(numbers: impl IntoIterator<Item = i64>) -> String {
    let numbers: BTreeSet<i64> = numbers.into_iter().collect();
    let (mut ranges, mut single) = (Vec::new(), Vec::new());
    let mut runs = numbers.into_iter().peekable();
    while let Some(first) = runs.next() {
        let mut last = first;
        while let Some(next) = runs.next_if(|next| *next - 1 == last) {
            last = next;
        }
        if last - first < SHORT_RUN {
            single.extend(first..=last);
        } else {
            ranges.push(format!("seq BETWEEN {first} AND {}", last - 1));
            single.push(last);
        }
    }
    ranges.push(format!("seq IN ({})", list(single)));
    ranges.join(" OR ")
}

// Statements under `one` are the same in both layouts, or belong to one layout and never run in the other.
statements! {
    /// Every statement of the store.
    pub(crate) struct Sql(names: &Names) {
        table: TableName = names.table.clone(),
        names: Replacements = names.replacements.clone(),
        /// The quoted name of the event table.
        event: String = names.replacements.get("event").to_owned(),
        /// The index hint for reads of items, once the index has been looked up.
        by_status: OnceLock<String> = OnceLock::new(),
        /// The migrations, also shown to people.
        migrations: Vec<String> = MIGRATIONS.iter().map(|text| names.script(text)).collect(),
    }
    one statement -> Arc<str> {
        rows: written, written_ids, alive, fetch_slots, fetch_group, fetch_due, fetch_large, clock, committed, next_number,
            peek, numbers, number_open, next_due, later_due, promote_find, draw, renumber_begin, renumber, renumber_save, renumber_undo;
        claim: probe_hold, probe_skip, claim_find, claim_queue_find, claim_topic_find, claim_topic_lock, claim, claim_large,
            claim_mark, claim_queue_mark, claim_marked, claim_unmark, due_topics, due_topics_scan, reap_find, reap_lock, reap;
        settle: node_lock, done_lock, done, settle_find, settle_busy, settle, delete, attempts_add, attempts_forget;
        membership: membership_lock, nodes, node_register, node_renew, node_leave, node_evict, node_publish, slots_take,
            slots_release, slots_drop, slots_free;
        joins: join_start, join_show, joins_lock, join_count, join_wait, join_end, join_fire, joins, joins_ended, joins_purge,
            member_show, member_end, members_there, members_add, members_end, members_pending, members_purge, steps_find,
            steps_seek, steps_lock, steps_mark;
        operate: groups, groups_named, group_show, group_head, group_hold, group_free, groups_behind, epoch, epoch_grow,
            purge_find, purge, purge_any_find, purge_any, purge_turn, purge_turn_over, audit, audits;
        inspect: count, attempts, stats_beside;
        schema: migrate_lock, migrate_unlock, step, node_state_there, node_state, rights_user, rights_select, rights_insert,
            rights_update, rights_delete;
        items: items_columns, items_index_name, items_large, items_claim, items_leads, items_stuck, items_take_find,
            items_take_lock, items_recover_find, items_recover_lock, items_recover, items_settle_find, items_settle_busy,
            items_settle, items_purge, items_purge_any, items_free;
    }
    each statement -> Arc<str> {
        rows: insert;
        membership: slots, slots_evict, slots_trust, slots_sweep, pending_upto, waiting;
        operate: dead_find, revive, cancel_find, remove;
        inspect: list, list_newest, show, stats_pending, stats_ended, stats_dead;
        schema: version;
    }
    one script -> String { items: create_items, create_beside; }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stand_in_statements_by_their_bytes() {
        assert_eq!(quoted_list(["a'", ""]), "_utf8mb4 X'6127', _utf8mb4 X''");
        assert_eq!(quoted_list([]), "NULL");
    }

    #[test]
    fn numbers_in_a_row_are_a_range_that_ends_before_the_last() {
        assert_eq!(locked_rows([]), "seq IN (-9)");
        assert_eq!(locked_rows([7, 5, 6]), "seq IN (5, 6, 7)");
        assert_eq!(locked_rows([1, 2, 3, 4, 9]), "seq BETWEEN 1 AND 3 OR seq IN (4, 9)");
        assert_eq!(
            locked_rows((1..=5).chain(7..=10)),
            "seq BETWEEN 1 AND 4 OR seq BETWEEN 7 AND 9 OR seq IN (5, 10)"
        );
        assert_eq!(locked_rows([i64::MAX, i64::MIN]), format!("seq IN ({}, {})", i64::MIN, i64::MAX));
    }
}
