//! Dead rows that are too large to be rewritten.
//!
//! An UPDATE of SQLite holds the whole row in memory, twice, whatever it changes. So the death of such a row is recorded in a
//! table beside it. The row itself still says that it is pending, and the statements look at both.

use pillarbox::model::{HEAVY_COLUMNS, Layout};
use pillarbox_store_kit::selected;

use crate::row::RECORD_COLUMNS;

/// Contents of more bytes than this are not rewritten to mark their event dead.
const MOST: usize = 16 * 1024 * 1024;
/// An empty table, for tables of items that have none beside them.
const NONE: &str = "(SELECT NULL AS id, NULL AS bytes, NULL AS retry_count, NULL AS processed_at, NULL AS error_message WHERE false)";

const SIZE: &str = "(ifnull(octet_length(payload), 0) + ifnull(octet_length(headers), 0) \
    + ifnull(octet_length(payload_bytes), 0) + ifnull(octet_length(last_error), 0))";
const ITEM_SIZE: &str = "(ifnull(octet_length(payload), 0) + ifnull(octet_length(error_message), 0))";

/// What the table beside the rows says of a row, under the names of the row's own columns.
const BESIDE: [(&str, &str); 4] = [
    ("{attempts}", "attempts"),
    ("{done_at}", "done_at"),
    ("{last_error}", "last_error"),
    ("{processed_by}", "processed_by"),
];
const ITEM_BESIDE: [(&str, &str); 3] = [
    ("{retry_count}", "retry_count"),
    ("{processed_at}", "processed_at"),
    ("{error_message}", "error_message"),
];

const CONDITIONS: [(&str, &str); 6] = [
    ("{pending}", "status IN (0, 2) AND seq NOT IN (SELECT seq FROM {oversized})"),
    (
        "{dead}",
        "seq IN (SELECT seq FROM {event} INDEXED BY {event_ended} WHERE status IN (1, 3) AND status = 3 \
            UNION ALL SELECT seq FROM {oversized})",
    ),
    ("{state}", "iif({aside}, 3, status)"),
    ("{aside}", "seq IN (SELECT seq FROM {oversized})"),
    ("{its}", "o.seq = {event}.seq"),
    ("{size}", SIZE),
];
/// The size tells an item from one that came later under the same id.
const ITEM_CONDITIONS: [(&str, &str); 5] = [
    ("{dead}", "(status = 'FAILED' OR (id IN (SELECT id FROM {oversized}) AND {aside}))"),
    ("{state}", "iif({aside}, 'FAILED', status)"),
    ("{aside}", "EXISTS (SELECT 1 FROM {oversized} o WHERE {its})"),
    ("{its}", "o.id = {event}.id AND o.bytes = ifnull(octet_length(payload), 0) AND status = 'PENDING'"),
    ("{size}", ITEM_SIZE),
];

/// The columns and conditions of statements on rows, in the order in which they contain each other. They contain `{event}` and
/// names of indexes. `there` is the table beside the rows, if it is there.
pub(crate) fn fragments(layout: Layout, columns: &str, there: Option<String>) -> Vec<(&'static str, String)> {
    let beside = layout.either(&BESIDE[..], &ITEM_BESIDE[..]);
    let conditions = layout.either(&CONDITIONS[..], &ITEM_CONDITIONS[..]);
    let is_large = if there.is_some() { format!("({{size}} > {MOST})") } else { "false".to_owned() };
    let listed = |column: &str| format!("CASE WHEN ?9 AND NOT {{is_large}} THEN {column} END");
    let shown = |column: &str| format!("iif({{aside}}, NULL, {column})");
    let mut all = vec![
        (
            "{listed_columns}",
            format!("{}, iif({{is_large}}, 1, NULL) AS left_out", seen(beside, columns, listed)),
        ),
        ("{shown_columns}", format!("{}, iif({{aside}}, 1, NULL) AS left_out", seen(beside, columns, shown))),
        ("{record_columns}", seen(beside, RECORD_COLUMNS, str::to_owned)),
    ];
    all.extend(beside.iter().map(|(placeholder, column)| {
        (*placeholder, format!("coalesce((SELECT o.{column} FROM {{oversized}} o WHERE {{its}}), {column})"))
    }));
    all.push(("{is_large}", is_large));
    all.extend(conditions.iter().map(|(placeholder, text)| (*placeholder, (*text).to_owned())));
    all.push(("{oversized}", there.unwrap_or_else(|| NONE.to_owned())));
    all
}

/// Renders columns as people see them; `contents` renders payloads and headers.
fn seen(beside: &[(&str, &str)], columns: &str, contents: impl Fn(&str) -> String) -> String {
    let beside: Vec<&str> = beside.iter().map(|(_, column)| *column).collect();
    let other = [&HEAVY_COLUMNS[..], &beside, &["status"]].concat();
    selected(columns, &other, str::to_owned, |column| match column {
        "status" => "{state}".to_owned(),
        column if HEAVY_COLUMNS.contains(&column) => contents(column),
        column => format!("{{{column}}}"),
    })
}
