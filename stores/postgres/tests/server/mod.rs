//! A PostgreSQL server of a test's own, which it may stop, kill and start again; ended and removed with its value.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Where the programs of PostgreSQL are.
const BIN: &str = "PILLARBOX_TEST_POSTGRES_BIN";
/// Who runs a server that refuses root; there is one on every system.
const USER: &str = "nobody";
const READY: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Below the ports that the system gives to clients, which could hold one while the server is down.
const PORTS: std::ops::Range<u16> = 17_000..30_000;

/// How a server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "each test that has a server ends it in its own ways")]
pub(crate) enum Stop {
    /// Transactions are rolled back, everything is written.
    Fast,
    /// It ends as in a crash, but tells its clients.
    Immediate,
    /// It is killed; its processes notice that it is gone.
    Kill,
}

impl Stop {
    fn signal(self) -> &'static str {
        match self {
            Self::Fast => "INT",
            Self::Immediate => "QUIT",
            Self::Kill => "KILL",
        }
    }
}

/// One server in a folder of its own.
pub(crate) struct Server {
    bin: PathBuf,
    user: Option<User>,
    folder: TempDir,
    port: u16,
    settings: Vec<String>,
    child: Option<Child>,
}

/// Who runs servers.
pub(crate) struct User {
    id: u32,
    group: u32,
}

impl Server {
    /// A new server with these settings (`name=value`). An error says why there can be none here.
    pub(crate) fn new(settings: &[&str]) -> Result<Self, String> {
        let bin =
            std::env::var_os(BIN).ok_or_else(|| format!("{BIN} is not set; `cargo xtask test` sets it"))?;
        let user = User::for_servers()?;
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut server = Self {
            bin: bin.into(),
            user,
            folder,
            port: free_port()?,
            settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
            child: None,
        };
        server.make_data().map_err(|error| format!("the data folder: {error}"))?;
        let mut initdb = server.program("initdb");
        initdb.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]);
        answer(initdb.arg("-D").arg(server.data()))?;
        server.start()?;
        Ok(server)
    }

    #[allow(dead_code, reason = "for those who put something before the server")]
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// What it has logged so far.
    #[allow(dead_code, reason = "not every test that has a server reads its log")]
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.folder.path().join("log")).unwrap_or_default()).into_owned()
    }

    /// Ends it, and waits until it has ended.
    pub(crate) fn stop(&mut self, how: Stop) {
        let Some(mut child) = self.child.take() else { return };
        let pid = child.id().to_string();
        // Every shell can do it; the program of that name comes with a package.
        let sent = Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", how.signal(), &pid]).status();
        if !sent.is_ok_and(|status| status.success()) || !wait_until(|| !matches!(child.try_wait(), Ok(None)))
        {
            let _ = child.kill();
        }
        // A server that is not waited for keeps its lock file alive.
        let _ = child.wait();
    }

    /// Kills one of its processes, as a system that runs out of memory does: the server ends all others and recovers by itself.
    #[allow(dead_code, reason = "for those who know the number of such a process")]
    pub(crate) fn kill_backend(&self, pid: i32) -> Result<(), String> {
        let ready = || self.log().matches("ready to accept connections").count();
        let before = ready();
        answer(Command::new("sh").args(["-c", "kill -s KILL \"$0\"", &pid.to_string()]))?;
        match wait_until(|| ready() > before) {
            true => Ok(()),
            false => Err("the server did not recover from the end of one of its processes".to_owned()),
        }
    }

    /// Starts it on its old data and port, and waits until it takes connections.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        let until = Instant::now() + READY;
        loop {
            let mut child = self.spawn().map_err(|error| format!("the server did not start: {error}"))?;
            wait_until(|| self.is_ready(child.id()) || !matches!(child.try_wait(), Ok(None)));
            if matches!(child.try_wait(), Ok(None)) && self.is_ready(child.id()) {
                self.child = Some(child);
                return Ok(());
            }
            let _ = child.kill();
            let _ = child.wait();
            // The processes of a server that was killed need a moment to notice.
            if Instant::now() > until {
                let log = self.log();
                let last: Vec<&str> = log.lines().rev().take(5).collect();
                return Err(format!("the server does not take connections: {last:?}"));
            }
        }
    }

    fn spawn(&self) -> std::io::Result<Child> {
        let log = File::options().create(true).append(true).open(self.folder.path().join("log"))?;
        let mut postgres = self.program("postgres");
        postgres.arg("-D").arg(self.data()).args(["-p", &self.port.to_string()]);
        let ours =
            ["unix_socket_directories=.", "listen_addresses=127.0.0.1", "max_connections=200", "fsync=off"];
        for setting in ours.into_iter().chain(self.settings.iter().map(String::as_str)) {
            postgres.args(["-c", setting]);
        }
        postgres.stdout(log.try_clone()?).stderr(log).spawn()
    }

    fn program(&self, name: &str) -> Command {
        program(&self.bin.join(name), self.user.as_ref(), self.folder.path())
    }

    fn make_data(&self) -> std::io::Result<()> {
        fs::set_permissions(self.folder.path(), fs::Permissions::from_mode(0o755))?;
        fs::create_dir(self.data())?;
        fs::set_permissions(self.data(), fs::Permissions::from_mode(0o700))?;
        match &self.user {
            Some(user) => chown(self.data(), Some(user.id), Some(user.group)),
            None => Ok(()),
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The first line of the file tells whose it is, the eighth how far the server has come.
    fn is_ready(&self, pid: u32) -> bool {
        let status = fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        let line = |number| status.lines().nth(number).map(str::trim_end);
        line(0) == Some(&pid.to_string())
            && line(7) == Some("ready")
            && TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop(Stop::Immediate);
    }
}

impl User {
    #[allow(dead_code, reason = "for those who make folders of servers themselves")]
    pub(crate) fn ids(&self) -> (u32, u32) {
        (self.id, self.group)
    }

    /// Nobody else, unless we are root, whom servers refuse.
    pub(crate) fn for_servers() -> Result<Option<Self>, String> {
        if answer(Command::new("id").arg("-u"))? == "0" { Self::find().map(Some) } else { Ok(None) }
    }

    fn find() -> Result<Self, String> {
        let number = |flag| {
            let text = answer(Command::new("id").args([flag, USER]))?;
            text.parse().map_err(|_| format!("`id {flag} {USER}` says {text}"))
        };
        Ok(Self { id: number("-u")?, group: number("-g")? })
    }
}

/// A program as the user who may run it. A server must not outlive the test, however that ends.
pub(crate) fn program(path: &Path, user: Option<&User>, folder: &Path) -> Command {
    let mut command = if Path::new("/usr/bin/setpriv").exists() {
        let mut setpriv = Command::new("/usr/bin/setpriv");
        if let Some(user) = user {
            setpriv.args(["--reuid", &user.id.to_string(), "--regid", &user.group.to_string()]);
            setpriv.arg("--clear-groups");
        }
        setpriv.args(["--pdeathsig", Stop::Immediate.signal()]).arg(path);
        setpriv
    } else {
        Command::new(path)
    };
    // Not the locale and the time zone of whoever runs the tests, which the server may not have.
    command.current_dir(folder).envs([("LC_ALL", "C"), ("TZ", "UTC")]).stdin(Stdio::null());
    command
}

/// A port that nobody listens on; every test process begins its search somewhere else.
pub(crate) fn free_port() -> Result<u16, String> {
    let micros = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.subsec_micros());
    let start =
        std::process::id().wrapping_mul(7_919).wrapping_add(micros) % u32::from(PORTS.end - PORTS.start);
    let mut ports = PORTS.skip(start as usize).chain(PORTS);
    let free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    ports.find(free).ok_or_else(|| "no port is free".to_owned())
}

fn answer(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{name}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Looks at something that gives no signal, for a while.
pub(crate) fn wait_until(is_so: impl FnMut() -> bool) -> bool {
    let mut is_so = is_so;
    let until = Instant::now() + READY;
    while Instant::now() < until {
        if is_so() {
            return true;
        }
        std::thread::park_timeout(LOOK_EVERY);
    }
    false
}
