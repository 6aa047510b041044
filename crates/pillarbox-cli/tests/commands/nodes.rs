//! `nodes`: who delivers.

use serde_json::json;

use crate::outbox::Outbox;

#[test]
fn nodes_are_listed_with_their_leases_and_slots() {
    let outbox = Outbox::new();
    assert_eq!(outbox.run(&["nodes", "list"]).done().stdout, "no nodes\n");
    assert_eq!(outbox.run(&["nodes", "list", "--json"]).done().json(), json!([]));
    let membership = outbox.join("host-1/4711");
    let listed = outbox.run(&["nodes", "list", "--json"]).done().json();
    assert_eq!(listed[0]["label"], "host-1/4711");
    assert_eq!(listed[0]["lane"], membership.lane.0);
    assert_eq!(listed[0]["slots"], membership.held.len());
    assert!(listed[0]["expires_in_ms"].as_u64().unwrap() <= 60_000);
    assert_eq!(listed[0]["node"].as_str().unwrap().len(), 32);
    let people = outbox.run(&["nodes", "list"]).done().stdout;
    assert!(people.contains("host-1/4711") && people.contains(" left"), "{people}");
}
