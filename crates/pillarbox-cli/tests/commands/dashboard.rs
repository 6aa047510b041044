//! `dashboard`: the admin API of a database without a relay.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::outbox::Outbox;
use crate::postgres::Fixture;

const TOKEN: &str = "an-operator-of-the-tests";

/// A dashboard that runs.
struct Dashboard {
    child: Child,
    address: String,
}

impl Dashboard {
    fn start(outbox: &Outbox, arguments: &[&str]) -> Self {
        let mut command = outbox.command(&[&["dashboard", "--admin", "127.0.0.1:0"], arguments].concat());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines.find_map(|line| {
            let line = line.unwrap();
            line.strip_prefix("dashboard: http://").map(str::to_owned)
        });
        Self { child, address: address.expect("it says where it listens") }
    }

    fn ask(&self, request: &str, body: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(
            stream,
            "{request} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.address,
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned())))
    }

    fn end(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

/// A test that fails leaves none behind.
impl Drop for Dashboard {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// PBX-291
#[test]
fn the_admin_api_of_a_database_is_served_without_a_relay() {
    for (outbox, tables) in [
        (Outbox::new(), vec!["outbox_event"]),
        (Outbox::of_items(), vec!["outbox_events", "outbox_dispatch_jobs"]),
    ] {
        let id = outbox.write(&["--type", "EVENT", "--payload", "{}"]);
        let dashboard = Dashboard::start(&outbox, &["--admin-token", TOKEN]);
        let (status, sources) = dashboard.ask("GET /api/v1/sources", "");
        assert_eq!((status, &sources[0]["tables"]), (200, &tables.into()), "{sources}");
        assert_eq!(dashboard.ask("GET /readyz", "").1, "ready\n");
        let (status, _) = dashboard.ask(&format!("POST /api/v1/events/{id}/cancel"), "{}");
        assert_eq!(status, 200);
        assert_eq!(dashboard.ask(&format!("GET /api/v1/events/{id}"), "").0, 404);
        assert_eq!(outbox.audit()[0], ("admin".to_owned(), "cancel".to_owned(), id));
        dashboard.end();
    }
}

/// PBX-291
#[test]
fn a_dashboard_without_a_token_only_reads_and_one_that_others_reach_needs_a_token() {
    let outbox = Outbox::new();
    let dashboard = Dashboard::start(&outbox, &[]);
    assert_eq!(dashboard.ask("GET /api/v1/stats", "").0, 200);
    assert_eq!(dashboard.ask("POST /api/v1/dead/replay", "{\"all\":true}").0, 403);
    dashboard.end();
    outbox.run(&["dashboard", "--admin", "0.0.0.0:0"]).exits(2).complains("admin-token");
    outbox.run(&["dashboard", "--admin-token", "short"]).exits(2).complains("16 characters");
}

/// PBX-291
#[test]
fn a_dashboard_without_its_tables_says_what_to_do() {
    let outbox = Outbox::new();
    outbox.run(&["dashboard", "--table", "letters"]).exits(1).complains("pillarbox migrate");
}

/// PBX-201: a right that the database user lacks is answered with the statements that grant it, which are enough.
#[test]
fn a_change_that_the_database_refuses_is_answered_with_the_grants_to_run() {
    let Some(fixture) = Fixture::new() else { return };
    let outbox = fixture.outbox();
    let dead = outbox.dead_head("a", "boom");
    let (schema, user) = (&fixture.schema, format!("{}_operator", fixture.schema));
    fixture.execute(&format!(
        "CREATE ROLE {user}; GRANT USAGE ON SCHEMA {schema} TO {user}; \
         GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {user}; \
         GRANT SELECT ON ALL SEQUENCES IN SCHEMA {schema} TO {user}"
    ));
    let join = if fixture.server.contains('?') { '&' } else { '?' };
    let url = format!("{}{join}options=-csearch_path%3D{schema}%20-crole%3D{user}", fixture.server);
    let dashboard = Dashboard::start(&outbox, &["--admin-token", TOKEN, "--url", &url]);
    let pause = "POST /api/v1/sources/default/groups/b/pause";
    let discard = format!("{{\"ids\":[\"{dead}\"]}}");
    let (status, refused) = dashboard.ask(pause, "{}");
    assert_eq!(status, 403, "{refused}");
    let (_, grants) = refused["error"].as_str().unwrap().split_once(": ").unwrap();
    let told = format!("GRANT INSERT ON \"outbox_audit\" TO \"{user}\"");
    assert!(grants.contains(&told), "{grants}");
    assert_eq!(dashboard.ask("POST /api/v1/dead/discard", &discard).0, 403);
    fixture.execute(&format!("SET search_path TO {schema}; {grants}"));
    assert_eq!(dashboard.ask(pause, "{}").0, 200);
    for (action, body) in [("replay", "{\"all\":true,\"dry_run\":true}"), ("discard", &discard)] {
        let (status, changed) = dashboard.ask(&format!("POST /api/v1/dead/{action}"), body);
        assert_eq!(status, 200, "{action}: {changed}");
    }
    dashboard.end();
    fixture.execute(&format!("DROP OWNED BY {user}; DROP ROLE {user}"));
}
