//! A MariaDB server of a case's own, made of the programs of the one that a variable names.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use pillarbox_mysql::sqlx::mysql::MySqlConnection;
use pillarbox_mysql::sqlx::{Connection, Row, query};
use tempfile::TempDir;

use super::Stop;
use crate::server::{User, free_port, program, wait_until};

/// Fills a data folder.
const BOOTSTRAP: &str = include_str!("../../../../../tools/servers/src/mysql/bootstrap.sh");
const ACCOUNTS: &str = include_str!("../../../../../tools/servers/src/mysql/accounts.sql");
/// Commits are written to the disk once in a while, by a thread of the server's: a crash takes back about a second of them.
const FORGETFUL: &str = "--innodb-flush-log-at-trx-commit=0";

/// One server in a folder of its own; ended and removed with its value.
pub(super) struct MariadbServer {
    user: Option<User>,
    folder: TempDir,
    port: u16,
    /// The program, and where its own files are.
    daemon: PathBuf,
    words: Vec<String>,
    child: Option<Child>,
}

impl MariadbServer {
    /// Made of the programs of a server that runs.
    pub(super) async fn new(url: &str) -> Result<Self, String> {
        let told = |error: pillarbox_mysql::sqlx::Error| error.to_string();
        let mut connection = MySqlConnection::connect(url).await.map_err(told)?;
        let homes = query("SELECT @@basedir, @@lc_messages_dir, @@character_sets_dir, @@plugin_dir");
        let homes = homes.fetch_one(&mut connection).await.map_err(told)?;
        let home = |place: usize| homes.try_get::<String, _>(place).map_err(told);
        let (base, share) = (home(0)?, home(1)?);
        let words = vec![
            "--no-defaults".to_owned(),
            format!("--basedir={base}"),
            format!("--lc-messages-dir={share}"),
            format!("--character-sets-dir={}", home(2)?),
            format!("--plugin-dir={}", home(3)?),
        ];
        let daemon = Path::new(&base).join("sbin/mariadbd");
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let user = User::for_servers()?;
        let mut server = Self { user, folder, port: free_port()?, daemon, words, child: None };
        server.fill(Path::new(&share)).map_err(|error| format!("the data folder: {error}"))?;
        server.start()?;
        Ok(server)
    }

    pub(super) fn url(&self) -> String {
        format!("mysql://pillarbox:pillarbox@127.0.0.1:{}/pillarbox", self.port)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn fill(&self, share: &Path) -> std::io::Result<()> {
        fs::write(self.path("accounts.sql"), ACCOUNTS)?;
        if let Some(user) = &self.user {
            let (id, group) = user.ids();
            chown(self.folder.path(), Some(id), Some(group))?;
        }
        let mut bootstrap = program(Path::new("/bin/sh"), self.user.as_ref(), self.folder.path());
        bootstrap.args(["-c", BOOTSTRAP, "mariadb"]).arg(share).arg(self.path("tables"));
        bootstrap.arg(&self.daemon).args(&self.words);
        bootstrap.args(["--bootstrap", "--log-warnings=0", "--max-allowed-packet=8M"]);
        bootstrap.arg(format!("--datadir={}", self.path("tables").display()));
        let filled = bootstrap.arg(format!("--tmpdir={}", self.folder.path().display())).output()?;
        match filled.status.success() {
            true => Ok(()),
            false => Err(std::io::Error::other(String::from_utf8_lossy(&filled.stderr).into_owned())),
        }
    }

    fn start(&mut self) -> Result<(), String> {
        let mut daemon = program(&self.daemon, self.user.as_ref(), self.folder.path());
        let file = |name: &str| self.path(name).display().to_string();
        daemon.args(&self.words).arg(format!("--datadir={}", file("tables")));
        daemon.arg(format!("--tmpdir={}", self.folder.path().display()));
        daemon.arg(format!("--init-file={}", file("accounts.sql")));
        daemon.args(["--bind-address=127.0.0.1", &format!("--port={}", self.port)]);
        daemon.arg(format!("--socket={}", file("socket"))).arg(format!("--pid-file={}", file("pid")));
        daemon.args([FORGETFUL, "--innodb-doublewrite=0", "--max-connections=300", "--skip-log-bin"]);
        daemon.args([
            "--character-set-server=utf8mb4",
            "--skip-name-resolve",
            "--innodb-buffer-pool-size=64M",
        ]);
        let mut child =
            daemon.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(|error| error.to_string())?;
        let takes = || TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok();
        let ready = wait_until(|| takes() || !matches!(child.try_wait(), Ok(None)));
        if ready && matches!(child.try_wait(), Ok(None)) {
            self.child = Some(child);
            return Ok(());
        }
        let _ = child.kill();
        let _ = child.wait();
        Err("the server does not take connections".to_owned())
    }

    fn stop(&mut self, how: Stop) {
        let Some(mut child) = self.child.take() else { return };
        let signal = if how == Stop::Fast { "TERM" } else { "KILL" };
        let sent = Command::new("sh")
            .args(["-c", "kill -s \"$0\" \"$1\"", signal, &child.id().to_string()])
            .status();
        if !sent.is_ok_and(|status| status.success()) || !wait_until(|| !matches!(child.try_wait(), Ok(None)))
        {
            let _ = child.kill();
        }
        let _ = child.wait();
    }

    pub(super) fn restart(&mut self, how: Stop, down: &mut dyn FnMut()) -> Result<(), String> {
        self.stop(how);
        down();
        self.start()
    }
}

impl Drop for MariadbServer {
    fn drop(&mut self) {
        self.stop(Stop::Kill);
    }
}
