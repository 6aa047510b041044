//! Throw-away servers as a user brings them up and takes them down.
#![cfg(target_os = "linux")]

use std::env;
use std::fs;
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{self, Command, Output};
use std::thread;
use std::time::{Duration, Instant};

const BIN: &str = "PILLARBOX_TEST_POSTGRES_BIN";
const URL: &str = "PILLARBOX_TEST_POSTGRES_URL";
const GONE: Duration = Duration::from_secs(20);

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
        self.up_with("postgres-15")
    }

    fn up_with(&self, name: &str) -> Vec<String> {
        let output = self.servers(&["up", name]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text").lines().map(String::from).collect()
    }

    fn status(&self) -> String {
        String::from_utf8(self.servers(&["status"]).stdout).expect("text")
    }

    fn pid(&self) -> String {
        self.pid_of("postgres-15")
    }

    fn pid_of(&self, name: &str) -> String {
        let status = self.status();
        let line = status.lines().find(|line| line.split(' ').next() == Some(name)).expect("a line");
        line.rsplit(' ').next().expect("a word").to_owned()
    }

    /// The processes that work in the folder or were told of it; those of a server all are.
    fn processes(&self) -> Vec<PathBuf> {
        let all = fs::read_dir("/proc").expect("processes").flatten().map(|entry| entry.path());
        let works_in =
            |path: &Path| fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd.starts_with(&self.temp));
        let is_told = |path: &Path| {
            let words = fs::read(path.join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&words).contains(&*self.temp.to_string_lossy())
        };
        all.filter(|path| works_in(path) || is_told(path)).collect()
    }

    /// Waits for processes that were sent a signal.
    fn is_deserted(&self) -> bool {
        let deadline = Instant::now() + GONE;
        while !self.processes().is_empty() && Instant::now() < deadline {
            thread::yield_now();
        }
        self.processes().is_empty()
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.servers(&["down"]);
        let _ = fs::remove_dir_all(&self.temp);
    }
}

/// Whether a server that is got from elsewhere has been got before; a test does not fetch it.
fn is_kept(name: &str, folder: &str) -> bool {
    let own = env::var("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = own.or_else(|_| env::var("HOME").map(|home| Path::new(&home).join(".cache")));
    let there = cache.is_ok_and(|cache| cache.join("pillarbox/servers").join(folder).is_dir());
    if !there {
        let line = format!("could not run: xtask servers: {name} is not in the cache");
        writeln!(io::stdout(), "{line}").expect("standard output is open");
    }
    there
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

#[test]
fn servers_of_other_kinds_come_up_and_go_without_a_trace() {
    for (name, folder) in [("mysql", "mysql-server-core"), ("mongodb", "ferretdb-v2.7.0")] {
        if !is_kept(name, folder) {
            continue;
        }
        let desk = Desk::new(name);
        let exports = desk.up_with(name);
        let url = value(&exports, &format!("PILLARBOX_TEST_{}_URL", name.to_uppercase()));
        let port =
            url.rsplit(':').next().and_then(|rest| rest.split('/').next()?.parse().ok()).expect("a port");
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok(), "{url}");
        assert!(!desk.processes().is_empty());
        assert!(desk.servers(&["down", name]).status.success());
        assert_eq!(desk.processes(), [] as [PathBuf; 0], "{name}");
    }
}

#[test]
fn a_server_of_two_processes_ends_whole_even_if_the_first_is_killed() {
    if !is_kept("mongodb", "ferretdb-v2.7.0") {
        return;
    }
    let desk = Desk::new("halves");
    desk.up_with("mongodb");
    assert!(desk.processes().len() > 2);
    assert!(Command::new("kill").args(["-s", "KILL", &desk.pid_of("mongodb")]).status().unwrap().success());
    assert!(desk.is_deserted(), "{:?}", desk.processes());
}
