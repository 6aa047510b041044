//! Starts one server: gets its software, fills a folder, and waits until it takes connections.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::ground::Ground;
use super::instance::{self, Instance, Record};
use super::runner::{Life, Runner};
use super::{Server, Site, port};
use crate::process;

const LOG: &str = "log";
const LOG_LINES_SHOWN: usize = 5;
const PREPARED: Duration = Duration::from_secs(2 * 60);
const READY: Duration = Duration::from_secs(60);
/// Between the choice of a port and its use another program may take it.
const PORTS_TRIED: usize = 5;

/// Starts a server in its folder of the ground, from nothing; leaves nothing behind if that fails.
pub(super) fn start(server: &dyn Server, ground: &Ground, life: Life) -> Result<Instance, String> {
    let home = software(server)?;
    let folder = ground.place_of(server.name());
    instance::clear(&folder)?;
    fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    begin(server, home, &folder, life).map_err(|why| {
        let why = format!("{why}{}", end_of_log(&folder));
        instance::clear(&folder).err().map_or(why.clone(), |left| format!("{why}; {left}"))
    })
}

fn software(server: &dyn Server) -> Result<PathBuf, String> {
    server.find().map_or_else(|| server.install(), Ok)
}

fn begin(server: &dyn Server, home: PathBuf, folder: &Path, life: Life) -> Result<Instance, String> {
    let runner = Runner::of(server)?;
    let mut site = Site { home, data: folder.join("data"), log: folder.join(LOG) };
    if !runner.can_start(&server.program(&site)) {
        site.home = copy(&site.home, folder)?;
    }
    runner.make_folder(&site.data)?;
    for command in server.preparation(&site) {
        let mut command = runner.wrap(&command, Life::Ours, "KILL");
        process::finish(to_log(&mut command, folder)?, PREPARED)
            .map_err(|why| format!("its data folder could not be filled: {why}"))?;
    }
    listen(server, &site, folder, |command| runner.wrap(command, life, server.stop_signal()))
}

/// Starts the server on the first port that it gets for itself.
fn listen(
    server: &dyn Server,
    site: &Site,
    folder: &Path,
    wrap: impl Fn(&Command) -> Command,
) -> Result<Instance, String> {
    let mut preferred = server.preferred_port();
    for _ in 0..PORTS_TRIED {
        let port = port::choose(preferred)?;
        let mut command = wrap(&server.command(site, port));
        let child = to_log(&mut command, folder)?.stdin(Stdio::null()).spawn();
        let child = child.map_err(|error| format!("did not start: {error}"))?;
        let record = Record { pid: child.id(), port, stop_signal: server.stop_signal().into() };
        let mut instance = Instance::note(folder, record, child)?;
        let is_ready = || server.is_ready(site, port);
        process::wait_until(READY, || is_ready() || !instance.is_alive());
        if instance.is_alive() && is_ready() {
            return Ok(instance);
        }
        if instance.is_alive() {
            instance.stop(server.stop_signal(), PREPARED);
            return Err(format!("took no connection on port {port} within {READY:?}"));
        }
        if port::is_free(port) {
            return Err("ended before it took a connection".into());
        }
        preferred = port;
    }
    Err(format!("other programs took {PORTS_TRIED} ports away before it listened"))
}

/// Puts the software where the server's user can reach it.
fn copy(home: &Path, folder: &Path) -> Result<PathBuf, String> {
    let to = folder.join("software");
    // Links are made at once, where both folders are in one file system.
    let mut link = Command::new("cp");
    link.args(["-R", "-l"]).arg(home.join(".")).arg(&to).stderr(Stdio::null());
    let linked = process::finish(&mut link, PREPARED);
    let copied = linked.or_else(|_| {
        process::finish(Command::new("cp").args(["-R", "-f"]).arg(home.join(".")).arg(&to), PREPARED)
    });
    copied.map_err(|why| format!("{} could not be copied: {why}", home.display()))?;
    Ok(to)
}

fn to_log<'a>(command: &'a mut Command, folder: &Path) -> Result<&'a mut Command, String> {
    let open = || -> io::Result<(File, File)> {
        let log = File::options().create(true).append(true).open(folder.join(LOG))?;
        Ok((log.try_clone()?, log))
    };
    let (out, err) = open().map_err(|error| format!("its log: {error}"))?;
    Ok(command.stdout(out).stderr(err))
}

/// What a failed server said last, to stand behind the reason.
fn end_of_log(folder: &Path) -> String {
    let log = fs::read(folder.join(LOG)).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..];
    if last.is_empty() { String::new() } else { format!(" ({})", last.join("; ")) }
}
