//! A PgBouncer of a test's own in transaction mode before a server; ended and removed with its value.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Child;

use tempfile::TempDir;

use crate::server::{Server, User, free_port, program, wait_until};

/// Names the program.
const PROGRAM: &str = "PILLARBOX_TEST_PGBOUNCER";
/// Where systems put it; not all search there.
const PLACES: [&str; 3] = ["/usr/sbin", "/usr/bin", "/usr/local/bin"];

/// Which server connection a client gets next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// The one that was used last: the default.
    Last,
    /// The one that was used longest ago: clients meet all of them soon.
    RoundRobin,
}

/// One pooler in a folder of its own.
pub(crate) struct Bouncer {
    port: u16,
    folder: TempDir,
    child: Child,
}

impl Bouncer {
    /// A new pooler before a server. An error says why there can be none here.
    pub(crate) fn new(server: &Server, next: Next) -> Result<Self, String> {
        let path = find()?;
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let port = free_port()?;
        let spawn = || {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
            let settings = folder.path().join("pgbouncer.ini");
            fs::write(&settings, settings_of(server, port, next))?;
            let log = File::create(folder.path().join("log"))?;
            let user = User::for_servers().map_err(std::io::Error::other)?;
            let mut bouncer = program(&path, user.as_ref(), folder.path());
            bouncer.arg(settings).stdout(log.try_clone()?).stderr(log).spawn()
        };
        let child = spawn().map_err(|error| format!("pgbouncer did not start: {error}"))?;
        let mut bouncer = Self { port, folder, child };
        wait_until(|| bouncer.is_ready() || !matches!(bouncer.child.try_wait(), Ok(None)));
        if bouncer.is_ready() {
            Ok(bouncer)
        } else {
            Err(format!("pgbouncer takes no connections: {}", bouncer.log()))
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    fn is_ready(&self) -> bool {
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok()
    }
}

impl Drop for Bouncer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn find() -> Result<PathBuf, String> {
    if let Some(program) = std::env::var_os(PROGRAM) {
        return Ok(program.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(PLACES.map(PathBuf::from));
    let mut programs = folders.map(|folder| folder.join("pgbouncer"));
    programs
        .find(|program| Path::is_file(program))
        .ok_or_else(|| format!("pgbouncer is not installed, and {PROGRAM} is not set"))
}

/// Whoever connects is the server's superuser, which trusts everyone here.
fn settings_of(server: &Server, port: u16, next: Next) -> String {
    let round_robin = u8::from(next == Next::RoundRobin);
    format!(
        "[databases]\n\
         postgres = host=127.0.0.1 port={} user=postgres\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir =\n\
         auth_type = any\n\
         pool_mode = transaction\n\
         max_client_conn = 100\n\
         default_pool_size = 8\n\
         server_round_robin = {round_robin}\n\
         server_login_retry = 1\n\
         ignore_startup_parameters = extra_float_digits\n",
        server.port()
    )
}
