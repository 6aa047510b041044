//! The SQL statements, with the table names filled in once.

use std::sync::Arc;

use pillarbox::model::{
    COLUMNS, HEAVY_COLUMNS, HEAVY_ITEM_COLUMNS, ITEM_COLUMNS, Layout, NewColumns, TableName,
};
use pillarbox_store_kit::{
    EVENT_INDEXES, JOIN_COLUMNS, Replacements, Selecting, TABLES, selected, statements,
};
use rusqlite::Connection;

use crate::migrate::MIGRATIONS;
use crate::row::{ID_IN_HEX, LEFT_OUT};
use crate::{flowcatalyst, oversized};

/// The condition that all selections of operators share, with parameters 1 to 6.
const MATCHES: &str = "(?2 >> {state}) & 1 AND (?3 IS NULL OR event_type = ?3) \
    AND (?4 IS NULL OR coalesce(aggregate_type, '__GLOBAL__') = ?4) AND (?5 IS NULL OR group_key = ?5) \
    AND (?6 IS NULL OR {done_at} < ?6)";

/// The same condition for items. An unknown status has code 4, which only a selection
/// of all statuses includes.
const ITEM_MATCHES: &str = "(?2 >> CASE {state} WHEN 'COMPLETED' THEN 1 WHEN 'FAILED' THEN 3 WHEN 'PENDING' THEN \
    CASE WHEN retry_count > 0 THEN 2 ELSE 0 END WHEN 'PROCESSING' THEN CASE WHEN retry_count > 0 THEN 2 ELSE 0 END ELSE 4 END) & 1 \
    AND (?3 IS NULL OR type = ?3) AND (?4 IS NULL OR ?4 = '__GLOBAL__') AND (?5 IS NULL OR message_group = ?5) \
    AND (?6 IS NULL OR ({state} IN ('COMPLETED', 'FAILED') AND {processed_at} < ?6))";

/// Whether no group is held behind an item.
const FREE: &str = "NOT EXISTS (SELECT 1 FROM {group} g WHERE g.event_id = {event}.id)";

/// The names of the tables of one outbox.
pub(crate) struct Names {
    layout: Layout,
    table: TableName,
    oversized: Oversized,
    replacements: Replacements,
}

/// Whether there is a table of rows that were set aside.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Oversized {
    There,
    Missing,
}

impl Names {
    pub(crate) fn new(table: &TableName, layout: Layout) -> Self {
        Self::with(table, layout, Oversized::There)
    }

    /// The same without the table of rows that were set aside, where it can be missing.
    fn without_oversized(&self) -> Option<Self> {
        let may_be_missing = self.either(false, self.oversized == Oversized::There);
        may_be_missing.then(|| Self::with(&self.table, self.layout, Oversized::Missing))
    }

    fn with(table: &TableName, layout: Layout, oversized: Oversized) -> Self {
        let (event, family) = (table.as_str(), table.family());
        let mut names =
            Self { layout, table: table.clone(), oversized, replacements: Replacements::default() };
        let (columns, heavy, left_out) = names.either(
            (format!("{COLUMNS}, last_error"), &HEAVY_COLUMNS[..], LEFT_OUT),
            (ITEM_COLUMNS.to_owned(), &HEAVY_ITEM_COLUMNS[..], flowcatalyst::LEFT_OUT),
        );
        // Contents that are too large to load, or that a list leaves out, are NULL. SQLite knows their
        // lengths without reading them.
        let light = |column: &str| format!("iif(octet_length({column}) <= ?1, {column}, NULL)");
        let heavy_and_error = [heavy, &["last_error"]].concat();
        // Table names are checked; the quotes are only needed for names that are also keywords.
        let there = (oversized == Oversized::There).then(|| format!("\"{family}_oversized\""));
        let mut all = vec![
            ("{light_columns}", selected(&columns, &heavy_and_error, str::to_owned, light)),
            ("{left_out}", left_out.to_owned()),
        ];
        all.extend(oversized::fragments(layout, &columns, there));
        all.extend([
            ("{event}", format!("\"{event}\"")),
            ("{event_name}", format!("'{event}'")),
            ("{meta_name}", format!("'{family}_meta'")),
            ("{slot_name}", format!("'{family}_slot'")),
            ("{attempt_event}", format!("\"{family}_attempt_event\"")),
            ("{event_status}", format!("\"idx_{event}_status\"")),
            ("{text_columns}", NewColumns::text_list(|_, name| name.to_owned())),
            ("{text_params}", NewColumns::text_list(|_, _| "?".to_owned())),
            ("{join_columns}", JOIN_COLUMNS.to_owned()),
            ("{id_in_hex}", ID_IN_HEX.to_owned()),
        ]);
        names.replacements = Replacements::new(all);
        for indexes in [&EVENT_INDEXES[..], &[("{event_number}", "number")]] {
            names.replacements.add_each(indexes, |index| format!("\"{event}_{index}\""));
        }
        let join_indexes = [
            ("{join_grouping}", "join_grouping"),
            ("{join_created}", "join_created"),
            ("{join_ended}", "join_ended"),
            ("{join_member_event}", "join_member_event"),
        ];
        for beside in [&TABLES[..], &join_indexes] {
            names.replacements.add_each(beside, |name| format!("\"{family}_{name}\""));
        }
        names
    }

    /// Chooses by the layout of these tables.
    pub(crate) fn either<T>(&self, native: T, items: T) -> T {
        self.layout.either(native, items)
    }

    /// A script for people, with its comments.
    pub(crate) fn script(&self, text: &str) -> String {
        self.replacements.fill(text)
    }

    fn statement(&self, text: &str) -> String {
        self.replacements.statement(text)
    }

    fn purging(&self, text: &str) -> Purging {
        let form = |free: &str| self.statement(&text.replace("{free}", free));
        Purging { held: form(FREE), alone: self.either(None, Some(form("true"))) }
    }

    fn selecting(&self, text: &str) -> Selecting<String> {
        let (id, pending, dead, matches) = self.either(
            (
                "event_id",
                "INDEXED BY {event_pending} WHERE ?1 IS NULL AND {pending}",
                "WHERE ?1 IS NULL AND {dead}",
                MATCHES,
            ),
            (
                "id",
                "WHERE ?1 IS NULL AND status IN ('PENDING', 'PROCESSING')",
                "WHERE ?1 IS NULL AND {dead}",
                ITEM_MATCHES,
            ),
        );
        let by = |found: &str| {
            self.statement(&text.replace("{selected}", &format!("{{event}} {found} AND {matches}")))
        };
        Selecting {
            any: by("WHERE ?1 IS NULL"),
            among: by(&format!("WHERE {id} IN (SELECT value FROM json_each(?1))")),
            pending: by(pending),
            dead: by(dead),
        }
    }
}

/// A search for rows to purge, which leaves out the heads of held groups.
pub(crate) struct Purging {
    pub(crate) held: String,
    /// The form for a table of items without our tables beside it, where no group can be held.
    pub(crate) alone: Option<String>,
}

// Statements under `one` are the same for both kinds of tables, or belong to one kind
// and never run for the other.
statements! {
    /// Every statement of the store.
    pub(crate) struct Sql(names: &Names) {
        table: TableName = names.table.clone(),
        /// The migrations, also shown to people.
        migrations: Vec<String> = MIGRATIONS.iter().map(|text| names.script(text)).collect(),
        /// Whether there is a table of rows that were set aside.
        sets_aside: bool = names.oversized == Oversized::There,
        /// The statements where no table of rows that were set aside is there. Without it, no row is set aside.
        without_oversized: Option<Arc<Sql>> = names.without_oversized().map(|names| Arc::new(Sql::new(&names))),
    }
    one statement -> String {
        rows: written, fetch_slots, fetch_group, fetch_due, sequence, later_due, promotable, sequence_draw, renumber;
        claim: claim_queue, claim_topic, claim_row, claim, due_topics, extend, reap;
        settle: node_here, reused, delay, joined, joins_here, remember, forget;
        membership: nodes, node_register, node_renew, node_expired, node_delete, node_publish, slot_take, slot_release, slot_drop,
            slots_free;
        joins: join_start, join_show, join_count, join_wait, join_end, join_purge, joins, joins_grouped, joins_ended, members,
            members_purge, member_show, member_add, member_report, member_end, step_show, step_mark;
        operate: groups, groups_named, group_show, group_block, group_hold, group_free, group_behind, group_forget, epoch,
            epoch_grow, cancel, audit, audits;
        inspect: attempts, stats_beside;
        schema: write_lock, tables, step, node_state_there, node_state, oversized_there, joined_there, joined_add, quarantine_there,
            quarantine_add;
        items: lacking, item, leads, group_first, group_next, take, mark_taken, recover;
    }
    each statement -> String {
        rows: insert, next_due;
        settle: done, done_delete, retry, dead, set_aside, attempt, waits, release, remembers;
        membership: slots, slot_trust, slots_evict, slots_sweep, first_pending;
        operate: locate, revive, restore, discard, clear, cancellable, purge, purge_any;
        inspect: show, stats_pending, stats_ended, stats_written, stats_dead;
        schema: version;
    }
    each purging -> Purging { operate: ended, written_before; }
    one selecting -> Selecting<String> { inspect: count; }
    each selecting -> Selecting<String> { operate: dead_matching; inspect: list, list_newest; }
    one script -> String { items: create_items, create_beside; }
}

impl Sql {
    /// The statements that fit the tables of a database: a table of items may have none of ours beside it, or those of an
    /// earlier release.
    pub(crate) fn fitting(self: &Arc<Self>, connection: &Connection) -> Arc<Self> {
        match &self.without_oversized {
            Some(without) if connection.prepare_cached(&self.oversized_there).is_err() => Arc::clone(without),
            _ => Arc::clone(self),
        }
    }
}

#[cfg(test)]
mod tests;
