//! Seeded runs of the real engine, with everything going wrong around it, judged by one checker of histories.

mod chance;
mod checker;
mod doom;
mod effect;
mod facts;
mod faults;
mod gate;
mod history;
mod hot;
mod node;
mod operator;
mod outages;
mod plan;
mod run;
mod running;
mod script;
mod sink;
mod store;
mod transaction;
mod truth;
mod under_way;
mod world;
mod writer;

use plan::Scenario;

/// PBX-011, PBX-012
#[test]
fn without_a_fault_nothing_is_lost_and_nothing_delivered_twice() {
    run::many(Scenario::Calm, 600);
}

/// PBX-010, PBX-012
#[test]
fn a_failing_store_loses_nothing_and_breaks_no_order() {
    run::many(Scenario::Store, 700);
}

/// PBX-010
#[test]
fn a_failing_sink_loses_nothing_and_breaks_no_order() {
    run::many(Scenario::Sink, 600);
}

/// PBX-010, PBX-011, PBX-014
#[test]
fn crashing_and_frozen_nodes_lose_nothing_and_break_no_order() {
    run::many(Scenario::Nodes, 700);
}

/// PBX-010, PBX-011, PBX-012
#[test]
fn everything_at_once_loses_nothing_and_breaks_no_order() {
    let facts = run::many(Scenario::Everything, 1_000);
    let missing = facts::missing(&facts);
    assert!(run::alone().is_some() || missing.is_empty(), "no run reached {missing:?}");
}
