//! Throw-away servers as a user brings them up and takes them down.
#![cfg(target_os = "linux")]

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const BIN: &str = "PILLARBOX_TEST_POSTGRES_BIN";
const URL: &str = "PILLARBOX_TEST_POSTGRES_URL";
const GONE: Duration = Duration::from_secs(20);

/// A temporary folder of its own keeps the test from servers that the user has up.
struct Sandbox {
    temp: PathBuf,
}

impl Sandbox {
    fn new(name: &str) -> Self {
        let temp = env::temp_dir().join(format!("pb-{name}-{}", process::id()));
        fs::create_dir(&temp).expect("a temporary folder");
        Self { temp }
    }

    fn servers(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the program starts")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        // A background job of a script ignores the interrupts that some tests send.
        let mut xtask = Command::new("/usr/bin/env");
        xtask.args(["--default-signal=INT", env!("CARGO_BIN_EXE_xtask"), "servers"]);
        xtask.args(arguments).env("TMPDIR", &self.temp).env_remove(URL);
        xtask
    }

    /// A run with a server, and its URL; it ends with its standard input.
    fn run(&self) -> (Child, String) {
        let script = format!("echo \"here: ${URL}\"; cat > /dev/null");
        let mut run = self.command(&["run", "postgres-15", "--", "sh", "-c", &script]);
        let mut child = run
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let url = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("here: ").map(String::from));
        (child, url.expect("a URL"))
    }

    /// The folders that runs have for their servers.
    fn runs(&self) -> Vec<PathBuf> {
        let all =
            |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let is_run =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("run-"));
        all(&self.temp).flat_map(|base| all(&base).collect::<Vec<_>>()).filter(is_run).collect()
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
        becomes_so(|| self.processes().is_empty())
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.servers(&["down"]);
        let _ = fs::remove_dir_all(&self.temp);
    }
}

fn becomes_so(is_so: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + GONE;
    while !is_so() && Instant::now() < deadline {
        thread::yield_now();
    }
    is_so()
}

fn send(signal: &str, pid: &str) {
    let mut kill = Command::new("sh");
    kill.args(["-c", "kill -s \"$0\" \"$1\"", signal, pid]);
    assert!(kill.status().expect("a shell starts").success());
}

fn complaints(child: Child) -> String {
    let mut text = String::new();
    child.stderr.expect("a pipe").read_to_string(&mut text).expect("text");
    text
}

/// Whether a server that is got from elsewhere has been got before; a test does not fetch it.
fn is_kept(name: &str, folder: &str) -> bool {
    let there = in_cache(folder);
    if !there {
        could_not_run(&format!("{name} is not in the cache"));
    }
    there
}

fn in_cache(folder: &str) -> bool {
    let own = env::var("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = own.or_else(|_| env::var("HOME").map(|home| Path::new(&home).join(".cache")));
    cache.is_ok_and(|cache| cache.join("pillarbox/servers").join(folder).is_dir())
}

fn could_not_run(why: &str) {
    writeln!(io::stdout(), "could not run: xtask servers: {why}").expect("standard output is open");
}

fn has_postgres() -> bool {
    let given = env::var(BIN).unwrap_or_default();
    let installed = [given.as_str(), "/usr/lib/postgresql/15/bin"]
        .iter()
        .any(|bin| Path::new(bin).join("initdb").is_file());
    let there = installed || in_cache("bookworm-postgresql-15");
    if !there {
        could_not_run(&format!("no PostgreSQL 15; install it or set {BIN}"));
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
    let sandbox = Sandbox::new("trace");
    let exports = sandbox.up();
    for (setting, wanted) in [("fsync", "on"), ("wal_level", "logical"), ("max_connections", "300")] {
        assert_eq!(asked(&exports, &format!("SHOW {setting}")), wanted, "{setting}");
    }
    assert!(sandbox.status().contains(&format!("up    {}", value(&exports, URL))), "{}", sandbox.status());
    assert!(!sandbox.processes().is_empty());
    assert_eq!(sandbox.up(), exports, "what is up stays up");

    let down = sandbox.servers(&["down", "postgres-15"]);
    assert_eq!(String::from_utf8_lossy(&down.stdout), format!("unset {URL}\nunset {BIN}\n"));
    assert_eq!(sandbox.processes(), [] as [PathBuf; 0]);
    assert!(sandbox.status().contains("postgres-15   down"), "{}", sandbox.status());
}

#[test]
fn a_server_that_was_killed_is_replaced() {
    if !has_postgres() {
        return;
    }
    let sandbox = Sandbox::new("killed");
    sandbox.up();
    let pid = sandbox.pid();
    send("KILL", &pid);
    let exports = sandbox.up();
    assert_eq!(asked(&exports, "SELECT 1"), "1");
    assert_ne!(sandbox.pid(), pid);
}

#[test]
fn servers_of_other_kinds_come_up_and_go_without_a_trace() {
    for (name, folder) in
        [("mysql", "sid-mysql-server-core"), ("mongodb", "mongodb-6.0.5"), ("ferretdb", "ferretdb-v2.7.0")]
    {
        if !is_kept(name, folder) {
            continue;
        }
        let sandbox = Sandbox::new(name);
        let exports = sandbox.up_with(name);
        let url = value(&exports, &format!("PILLARBOX_TEST_{}_URL", name.to_uppercase()));
        let port =
            url.rsplit(':').next().and_then(|rest| rest.split('/').next()?.parse().ok()).expect("a port");
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok(), "{url}");
        assert!(!sandbox.processes().is_empty());
        assert!(sandbox.servers(&["down", name]).status.success());
        assert_eq!(sandbox.processes(), [] as [PathBuf; 0], "{name}");
    }
}

#[test]
fn a_server_of_several_processes_ends_whole_even_if_the_first_is_killed() {
    for (name, folder) in [("ferretdb", "ferretdb-v2.7.0"), ("mongodb-3", "mongodb-6.0.5")] {
        if !is_kept(name, folder) {
            continue;
        }
        let sandbox = Sandbox::new(&format!("parts-{name}"));
        sandbox.up_with(name);
        assert!(sandbox.processes().len() > 2);
        send("KILL", &sandbox.pid_of(name));
        assert!(sandbox.is_deserted(), "{name}: {:?}", sandbox.processes());
    }
}

#[test]
fn a_run_that_is_killed_takes_its_servers_and_their_data_along() {
    if !has_postgres() {
        return;
    }
    for signal in ["INT", "TERM", "KILL"] {
        let sandbox = Sandbox::new(&format!("gone-{signal}"));
        let (mut run, _url) = sandbox.run();
        assert!(!sandbox.processes().is_empty());
        assert_eq!(sandbox.runs().len(), 1);
        send(signal, &run.id().to_string());
        assert!(!run.wait().expect("it ends").success());
        assert!(sandbox.is_deserted(), "{signal}: {:?}", sandbox.processes());
        assert!(becomes_so(|| sandbox.runs().is_empty()), "{signal}: {:?}", sandbox.runs());
    }
}

#[test]
fn two_runs_at_once_have_servers_of_their_own_and_leave_nothing() {
    if !has_postgres() {
        return;
    }
    let sandbox = Sandbox::new("two");
    // Whoever holds it, the preferred port is taken now.
    let _held = TcpListener::bind((Ipv4Addr::LOCALHOST, 15_415));
    let (one, two) = (sandbox.run(), sandbox.run());
    assert_ne!(one.1, two.1);
    assert_eq!(sandbox.runs().len(), 2);
    for (mut run, url) in [one, two] {
        drop(run.stdin.take());
        assert!(run.wait().expect("it ends").success());
        let said = complaints(run);
        let port = url.rsplit(':').next().and_then(|rest| rest.split('/').next()).expect("a port");
        assert!(said.contains(&format!("port 15415 is taken: postgres-15 uses {port}")), "{said}");
    }
    assert_eq!((sandbox.processes(), sandbox.runs()), (Vec::new(), Vec::new()));
}

#[test]
fn what_an_interrupted_run_left_is_cleared_and_told() {
    let sandbox = Sandbox::new("stale");
    sandbox.status();
    let mut folders = fs::read_dir(&sandbox.temp).expect("a folder").flatten().map(|entry| entry.path());
    let stale = folders.next().expect("the folder of the workspace").join("run-1");
    fs::create_dir_all(stale.join("postgres-15/data")).expect("a folder");
    let said = sandbox.servers(&["status"]);
    let line = format!("clearing what an interrupted run left in {}", stale.display());
    assert!(String::from_utf8_lossy(&said.stderr).contains(&line));
    assert!(!stale.exists());
}

#[test]
fn without_apt_get_it_is_told_what_helps() {
    let sandbox = Sandbox::new("bare");
    let bin = sandbox.temp.join("bin");
    fs::create_dir(&bin).expect("a folder");
    for program in ["id", "mkdir", "sh", "df", "setpriv", "install"] {
        let path = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(program));
        let path = path.iter().find(|path| path.exists()).expect("a program that every system has");
        symlink(path, bin.join(program)).expect("a link");
    }
    let mut up = sandbox.command(&["up", "mysql"]);
    let up = up.env("PATH", &bin).env("XDG_CACHE_HOME", &sandbox.temp).output().expect("the program starts");
    assert_eq!(up.status.code(), Some(1));
    let said = String::from_utf8_lossy(&up.stderr).into_owned();
    assert!(said.contains("could not run: mysql: there is no apt-get"), "{said}");
    assert!(said.contains("set PILLARBOX_TEST_MYSQL_URL"), "{said}");
}
