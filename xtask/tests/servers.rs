//! Throw-away servers as a user brings them up and takes them down.
#![cfg(target_os = "linux")]

use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{self, Command, Output};

const BIN: &str = "PILLARBOX_TEST_POSTGRES_BIN";
const URL: &str = "PILLARBOX_TEST_POSTGRES_URL";

/// A temporary folder of its own keeps the test from servers that the user has up.
struct Desk {
    temp: PathBuf,
}

impl Desk {
    fn new(name: &str) -> Self {
        let temp = env::temp_dir().join(format!("pb-{name}-{}", process::id()));
        fs::create_dir(&temp).expect("a temporary folder");
        Self { temp }
    }

    fn servers(&self, arguments: &[&str]) -> Output {
        let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
        xtask.arg("servers").args(arguments).env("TMPDIR", &self.temp).output().expect("the program starts")
    }

    fn up(&self) -> Vec<String> {
        let output = self.servers(&["up", "postgres-15"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text").lines().map(String::from).collect()
    }

    fn status(&self) -> String {
        String::from_utf8(self.servers(&["status"]).stdout).expect("text")
    }

    fn pid(&self) -> String {
        let status = self.status();
        let line = status.lines().find(|line| line.starts_with("postgres-15")).expect("a line");
        line.rsplit(' ').next().expect("a word").to_owned()
    }

    /// The processes that work in the folder; those of a server all do.
    fn processes(&self) -> Vec<PathBuf> {
        let all = fs::read_dir("/proc").expect("processes").flatten().map(|entry| entry.path());
        all.filter(|path| fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd.starts_with(&self.temp)))
            .collect()
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.servers(&["down"]);
        let _ = fs::remove_dir_all(&self.temp);
    }
}

fn has_postgres() -> bool {
    let given = env::var(BIN).unwrap_or_default();
    let there = [given.as_str(), "/usr/lib/postgresql/15/bin"]
        .iter()
        .any(|bin| Path::new(bin).join("initdb").is_file());
    if !there {
        let line = format!("could not run: xtask servers: no PostgreSQL 15; install it or set {BIN}");
        let mut stdout = io::stdout();
        writeln!(stdout, "{line}").expect("standard output is open");
    }
    there
}

fn value<'a>(exports: &'a [String], name: &str) -> &'a str {
    let start = format!("export {name}=");
    exports.iter().find_map(|line| line.strip_prefix(&start)).unwrap_or_else(|| panic!("{exports:?}"))
}

fn asked(exports: &[String], query: &str) -> String {
    let psql = Path::new(value(exports, BIN)).join("psql");
    let output =
        Command::new(psql).args([value(exports, URL), "-Atc", query]).output().expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

#[test]
fn a_server_comes_up_with_its_settings_and_goes_without_a_trace() {
    if !has_postgres() {
        return;
    }
    let desk = Desk::new("trace");
    let exports = desk.up();
    for (setting, wanted) in [("fsync", "on"), ("wal_level", "logical"), ("max_connections", "300")] {
        assert_eq!(asked(&exports, &format!("SHOW {setting}")), wanted, "{setting}");
    }
    assert!(desk.status().contains(&format!("up    {}", value(&exports, URL))), "{}", desk.status());
    assert!(!desk.processes().is_empty());
    assert_eq!(desk.up(), exports, "what is up stays up");

    let down = desk.servers(&["down", "postgres-15"]);
    assert_eq!(String::from_utf8_lossy(&down.stdout), format!("unset {URL}\n"));
    assert_eq!(desk.processes(), [] as [PathBuf; 0]);
    assert!(desk.status().contains("postgres-15   down"), "{}", desk.status());
}

#[test]
fn a_server_that_was_killed_is_replaced() {
    if !has_postgres() {
        return;
    }
    let desk = Desk::new("killed");
    desk.up();
    let pid = desk.pid();
    assert!(Command::new("kill").args(["-s", "KILL", &pid]).status().unwrap().success());
    let exports = desk.up();
    assert_eq!(asked(&exports, "SELECT 1"), "1");
    assert_ne!(desk.pid(), pid);
}
