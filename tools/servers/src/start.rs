//! Starts one server: initialises its folder and waits until it accepts connections.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::instance::{self, Instance, Record};
use super::runner::{Life, Runner};
use super::{Server, Site, cache, port};
use crate::disk;
use crate::process;

const LOG: &str = "log";
const SOFTWARE: &str = "software";
const PREPARED: Duration = Duration::from_secs(2 * 60);
const READY: Duration = Duration::from_secs(60);
/// Number of ports to try. Another program may take a port between our choice and its use.
const PORTS_TRIED: usize = 5;

/// A server that accepts connections, and the folder of its software.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) instance: Instance,
    pub(super) home: PathBuf,
}

/// Starts a server in a new folder. Leaves nothing behind if this fails.
pub(super) fn start(
    server: &dyn Server,
    home: PathBuf,
    folder: &Path,
    life: Life,
) -> Result<Started, String> {
    instance::clear(folder)?;
    fs::create_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let kept = cache::split(&home).map(|(kept, _)| kept);
    begin(server, home, folder, life).map_err(|why| {
        let mut why = disk::explain(why, folder);
        if let Some(kept) = kept {
            why = format!("{why}\n    delete {} to have it fetched again", kept.display());
        }
        instance::clear(folder).err().map_or(why.clone(), |left| format!("{why}\n    {left}"))
    })
}

/// The software of an instance: the copy below its folder if there is one, or else the original.
pub(super) fn home_of(found: PathBuf, folder: &Path) -> PathBuf {
    let copied = cache::split(&found).map(|(_, rest)| folder.join(SOFTWARE).join(rest));
    copied.filter(|home| home.exists()).unwrap_or(found)
}

/// Makes sure that the servers' user can read a file of the software, and copies the software below the
/// folder if necessary.
pub(super) fn make_readable(home: PathBuf, file: &Path, folder: &Path) -> Result<PathBuf, String> {
    if Runner::new()?.can_read(file) {
        return Ok(home);
    }
    let unreadable = || format!("servers run as an unprivileged user, who cannot read {}", file.display());
    let (kept, rest) = cache::split(&home).ok_or_else(unreadable)?;
    let copy = folder.join(SOFTWARE);
    if !copy.exists() {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        copy_all(&kept, &copy)?;
    }
    Ok(copy.join(rest))
}

fn begin(server: &dyn Server, home: PathBuf, folder: &Path, life: Life) -> Result<Started, String> {
    let runner = Runner::new()?;
    let mut site = Site { home, data: folder.join("data"), log: folder.join(LOG) };
    site.home = make_readable(site.home.clone(), &server.program(&site), folder)?;
    runner.make_folder(&site.data)?;
    for command in server.preparation(&site) {
        let mut wrapped = runner.wrap(&command, Life::Ours, "KILL", &site.data);
        process::logged(&mut wrapped, &process::line_of(&command), &site.log, PREPARED)?;
    }
    let wrap = |command: &Command| runner.wrap(command, life, server.stop_signal(), &site.data);
    let instance = listen(server, &site, folder, wrap)?;
    Ok(Started { instance, home: site.home })
}

/// Starts the server on the first free port that it can bind.
fn listen(
    server: &dyn Server,
    site: &Site,
    folder: &Path,
    wrap: impl Fn(&Command) -> Command,
) -> Result<Instance, String> {
    let mut preferred = server.preferred_port();
    for _ in 0..PORTS_TRIED {
        let port = port::choose(preferred, server.ports())?;
        if port != server.preferred_port() {
            let (name, preferred) = (server.name(), server.preferred_port());
            eprintln!("port {preferred} is taken: {name} uses {port}");
        }
        let command = server.command(site, port);
        let failed = |why: &str| {
            format!("`{}` {why}{}", process::line_of(&command), process::last_lines(&site.read_log()))
        };
        let child = to_log(&mut wrap(&command), &site.log)?.stdin(Stdio::null()).spawn();
        let child = child.map_err(|error| failed(&format!("did not start: {error}")))?;
        let record = Record { pid: child.id(), port, stop_signal: server.stop_signal().into() };
        let mut instance = Instance::note(folder, record, child)?;
        let is_ready = || server.is_ready(site, port);
        process::wait_until(READY, || is_ready() || !instance.is_alive());
        if instance.is_alive() && is_ready() {
            return Ok(instance);
        }
        if instance.is_alive() {
            instance.stop(server.stop_signal(), PREPARED);
            return Err(failed(&format!("took no connection on port {port} within {READY:?}")));
        }
        if port::is_free(port) {
            let exit = instance.exit().map_or_else(String::new, |status| format!(" ({status})"));
            return Err(failed(&format!("ended before it took a connection{exit}")));
        }
        preferred = port;
    }
    Err(format!("other programs took {PORTS_TRIED} ports away before it listened"))
}

/// Copies a folder, by hard links if both are in one file system, which is much faster.
fn copy_all(from: &Path, to: &Path) -> Result<(), String> {
    let copy = |how: &str| {
        let mut copy = Command::new("cp");
        // Symbolic links are copied as links; some point into the system.
        process::answer(copy.args(["-R", "-P", how]).arg(from.join(".")).arg(to)).map(drop)
    };
    let linked = copy("-l").or_else(|_| instance::remove(to).and_then(|()| copy("-f")));
    linked.map_err(|why| format!("{} could not be copied: {why}", from.display()))
}

fn to_log<'a>(command: &'a mut Command, log: &Path) -> Result<&'a mut Command, String> {
    let open = || -> io::Result<(File, File)> {
        let log = File::options().create(true).append(true).open(log)?;
        Ok((log.try_clone()?, log))
    };
    let (out, err) = open().map_err(|error| format!("{}: {error}", log.display()))?;
    Ok(command.stdout(out).stderr(err))
}
