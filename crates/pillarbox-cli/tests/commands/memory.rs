//! The memory of the relay, whatever the size of what waits.

use crate::outbox::Outbox;
use crate::relay::{Api, Running};

/// The most memory that a process has had at once, without the pages of the program itself: as built for tests it is several
/// times as large as it is for users.
fn peak_mib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let kilobytes = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        value.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    (kilobytes("VmHWM:") - kilobytes("RssFile:")) / 1_024
}

/// PBX-013: whatever waits in the table, the relay holds no more than its buffer, also when it looks whether anything is left.
#[test]
fn many_large_events_take_no_more_memory_than_the_buffer() {
    const EVENTS: usize = 180;
    let outbox = Outbox::new();
    let payload = outbox.path("payload.json");
    std::fs::write(&payload, format!("{{\"x\":\"{}\"}}", "a".repeat(1_000_000))).unwrap();
    let (payload, count) = (format!("@{}", payload.display()), EVENTS.to_string());
    outbox.run(&["write", "--type", "t", "--payload", &payload, "--count", &count]).done();
    let api = Api::new();
    let relay = Running::start(&outbox, &["--api-base-url", &api.url(), "--until-empty"]);
    let mut delivered = 0;
    while delivered < EVENTS {
        let posted = api.request();
        delivered += posted.items.len();
        let peak = peak_mib(relay.child.id());
        assert!(peak <= 128, "{peak} MiB after {delivered} events");
        posted.accept();
    }
    assert_eq!(relay.end().0, Some(0));
}

/// PBX-013: a row of 300 MB is never in memory, neither to be delivered nor to be marked, and the rest is delivered.
#[test]
fn one_huge_event_is_dead_without_being_loaded() {
    const EVENTS: usize = 100;
    for (outbox, event_type, table, id_column) in [
        (Outbox::new(), "t", "outbox_event", "event_id"),
        (Outbox::of_items(), "EVENT", "outbox_events", "id"),
    ] {
        let huge = outbox.write(&["--type", event_type, "--payload", "{}"]);
        let count = EVENTS.to_string();
        outbox.run(&["write", "--type", event_type, "--payload", "{}", "--count", &count]).done();
        let grow =
            format!("UPDATE {table} SET payload = hex(zeroblob(150000000)) WHERE {id_column} = '{huge}'");
        outbox.execute(&grow);
        let api = Api::new();
        let relay = Running::start(&outbox, &["--api-base-url", &api.url(), "--until-empty"]);
        let mut delivered = 0;
        while delivered < EVENTS {
            let posted = api.request();
            delivered += posted.items.len();
            if delivered == EVENTS {
                let is_dead = |_| outbox.run(&["stats", "--json"]).done().json()["events"]["dead"] == 1;
                assert!((0..1_000).any(is_dead), "the relay sets it aside while it runs");
            }
            let peak = peak_mib(relay.child.id());
            assert!(peak <= 128, "{table}: {peak} MiB after {delivered} events");
            posted.accept();
        }
        let (code, stdout, _) = relay.end();
        assert_eq!((code, stdout.contains("1 dead; nothing is left")), (Some(0), true), "{stdout}");
        let shown = outbox.shown(&huge);
        assert_eq!(shown["status"], "dead");
        assert!(shown["last_error"].as_str().unwrap().contains("max-row-bytes"), "{shown}");
        assert_eq!(outbox.run(&["dead", "list", "--json"]).done().json()[0]["id"], huge.as_str());
    }
}
