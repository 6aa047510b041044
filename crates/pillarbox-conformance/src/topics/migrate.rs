//! Making and checking the tables.

use pillarbox::port::{
    Cancel, ClaimFrom, Cursor, ErrorKind, HeldGroups, List, ListJoins, Migrated, Scope, Select, StoreError,
    Write,
};

use crate::case::{Case, Checked, cases};
use crate::harness::{Fixture, native};
use crate::kit::*;

pub(crate) fn cases() -> Vec<Case> {
    cases!("migrate";
        Nothing:
            migrating_again_is_harmless;
        Tables:
            migrating_makes_the_tables,
            missing_tables_are_told_as_such,
            the_statements_can_be_printed,
    )
}

/// EVT-040, OBX-110
async fn migrating_again_is_harmless(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    t.join(1, at(0)).await?;
    let Migrated { from, to } = t.beside.admin().migrate().await?;
    assert!(from == to && to > 0, "from {from} to {to}");
    t.store.admin().check().await?;
    assert_eq!(ids(&t.pending().await?), ["a"]);
    assert_eq!(
        t.heartbeat(1, at(1)).await?.held.len(),
        usize::try_from(t.store.facts().slots).expect("positive") + 1
    );
    Ok(())
}

/// EVT-040, OBX-108, OBX-111
async fn migrating_makes_the_tables(t: Fixture) -> Checked {
    let bare = t.bare.clone().expect("a store without tables");
    let first = bare.admin().migrate().await?;
    assert!(first.from == 0 && first.to > 0, "{first:?}");
    bare.admin().check().await?;
    bare.write(Write { rows: plain(&["a"]), now: Some(at(0)) }).await?;
    assert_eq!(bare.admin().count(Select::default()).await?, 1);
    if let Some(joins) = native(&bare).joins() {
        let list = ListJoins { limit: 9, ..ListJoins::default() };
        assert!(joins.list_joins(list).await?.is_empty());
        assert!(joins.show_join(join_id("j"), 9).await?.is_none());
    }
    Ok(())
}

fn is_schema<T>(answer: Result<T, StoreError>, operation: &str) {
    match answer {
        Ok(_) => panic!("{operation} found tables that are not there"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Schema, "{operation}: {error:?}"),
    }
}

/// EVT-143, OBX-109
async fn missing_tables_are_told_as_such(t: Fixture) -> Checked {
    let bare = t.bare.clone().expect("a store without tables");
    let admin = bare.admin();
    is_schema(admin.check().await, "check");
    is_schema(bare.write(Write { rows: plain(&["a"]), now: None }).await, "write");
    let scope = Scope::Slots { slots: t.every_slot(), cursor: Cursor::default() };
    is_schema(native(&bare).fetch(fetch(scope, at(0))).await, "fetch");
    is_schema(native(&bare).claim(claim(ClaimFrom::Queue, "ann", 9, at(0))).await, "claim");
    is_schema(bare.heartbeat(heartbeat(1, at(0))).await, "heartbeat");
    is_schema(admin.count(Select::default()).await, "count");
    is_schema(admin.list(List { limit: 9, ..List::default() }).await, "list");
    is_schema(admin.stats().await, "stats");
    is_schema(admin.groups(HeldGroups::first()).await, "groups");
    let cancel = Cancel { ids: vec![id("a")], by: "ann".to_owned(), now: None };
    is_schema(admin.cancel(cancel).await, "cancel");
    Ok(())
}

/// EVT-040
async fn the_statements_can_be_printed(t: Fixture) -> Checked {
    let statements = t.store.admin().schema_sql();
    for column in
        ["event_id", "payload", "headers", "status", "attempts", "available_at", "done_at", "locked_by"]
    {
        assert!(statements.contains(column), "{column} is missing");
    }
    Ok(())
}
