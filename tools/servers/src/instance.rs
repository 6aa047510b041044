//! One running server, recorded in its folder so that a later process can stop it.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::str::FromStr;
use std::time::Duration;

use crate::process;

const RECORD: &str = "record";
/// How long a server has to end after its stop signal. It has nothing to save.
const ASKED: Duration = Duration::from_secs(20);
const KILLED: Duration = Duration::from_secs(10);

/// The data to use and to stop a server.
#[derive(Debug, PartialEq)]
pub(super) struct Record {
    pub(super) pid: u32,
    pub(super) port: u16,
    pub(super) stop_signal: String,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.pid, self.port, self.stop_signal)
    }
}

impl FromStr for Record {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut words = text.split_whitespace();
        let mut next = || words.next().ok_or(());
        let pid = next()?.parse().map_err(|_| ())?;
        let port = next()?.parse().map_err(|_| ())?;
        Ok(Self { pid, port, stop_signal: next()?.to_owned() })
    }
}

/// A server and its folder.
#[derive(Debug)]
pub(super) struct Instance {
    folder: PathBuf,
    pub(super) record: Record,
    /// The child process, if this program started it and so must wait for it.
    child: Option<Child>,
}

impl Instance {
    /// Records the started server in the folder.
    pub(super) fn note(folder: &Path, record: Record, child: Child) -> Result<Self, String> {
        let instance = Self { folder: folder.to_owned(), record, child: Some(child) };
        match fs::write(folder.join(RECORD), instance.record.to_string()) {
            Ok(()) => Ok(instance),
            Err(error) => Err(instance.end().err().unwrap_or_else(|| format!("no record: {error}"))),
        }
    }

    /// Loads the record of the folder, if there is one.
    pub(super) fn load(folder: &Path) -> Option<Self> {
        let record = fs::read_to_string(folder.join(RECORD)).ok()?.parse().ok()?;
        let mut instance = Self { folder: folder.to_owned(), record, child: None };
        instance.is_alive().then_some(instance)
    }

    /// Whether the process exists and is this server.
    pub(super) fn is_alive(&mut self) -> bool {
        match &mut self.child {
            Some(child) => matches!(child.try_wait(), Ok(None)),
            // The process id may belong to another process by now.
            None => {
                let pid = self.record.pid;
                command_line(pid).contains(&*self.folder.to_string_lossy()) || works_in(pid, &self.folder)
            }
        }
    }

    /// The exit status, if this program started the process and it has ended.
    pub(super) fn exit(&mut self) -> Option<ExitStatus> {
        self.child.as_mut()?.try_wait().ok()?
    }

    /// Stops the process and removes the folder.
    pub(super) fn end(mut self) -> Result<(), String> {
        let signal = self.record.stop_signal.clone();
        self.stop(&signal, ASKED);
        if !self.stop("KILL", KILLED) {
            return Err(format!("process {} does not end", self.record.pid));
        }
        remove(&self.folder)
    }

    /// Sends a signal and waits. Returns whether the process has ended.
    pub(super) fn stop(&mut self, signal: &str, limit: Duration) -> bool {
        if !self.is_alive() {
            return true;
        }
        // The shell's built-in `kill`, because the program `kill` may not be installed.
        let mut kill = Command::new("sh");
        kill.args(["-c", "kill -s \"$0\" \"$1\"", signal, &self.record.pid.to_string()]);
        process::succeeds(&mut kill);
        process::wait_until(limit, || !self.is_alive())
    }
}

/// Stops the server of the folder, if one runs, and removes the folder.
pub(super) fn clear(folder: &Path) -> Result<(), String> {
    Instance::load(folder).map_or_else(|| remove(folder), Instance::end)
}

/// Removes a folder. Retries, because the last processes of a server may still write to it.
pub(super) fn remove(folder: &Path) -> Result<(), String> {
    let mut removed = Ok(());
    process::wait_until(KILLED, || {
        removed = fs::remove_dir_all(folder).or_else(|error| match error.kind() {
            ErrorKind::NotFound if !folder.exists() => Ok(()),
            _ => Err(format!("{}: {error}", folder.display())),
        });
        removed.is_ok()
    });
    removed
}

/// The command line of a process; empty if it has ended.
fn command_line(pid: u32) -> String {
    let by_system = || -> io::Result<String> {
        let words = fs::read(format!("/proc/{pid}/cmdline"))?;
        Ok(String::from_utf8_lossy(&words).replace('\0', " "))
    };
    if Path::new("/proc/self/cmdline").exists() {
        return by_system().unwrap_or_default();
    }
    process::answer(Command::new("ps").args(["-o", "args=", "-p", &pid.to_string()])).unwrap_or_default()
}

/// Whether the process runs in the folder. A process that is ending has no command line any more, but still
/// holds files and memory for a while.
fn works_in(pid: u32, folder: &Path) -> bool {
    fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|place| place.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let record = Record { pid: 12, port: 15_415, stop_signal: "QUIT".into() };
        assert_eq!(record.to_string().parse(), Ok(record));
        for text in ["", "12", "12 15415", "12 154150 QUIT", "a 15415 QUIT"] {
            assert_eq!(text.parse::<Record>(), Err(()), "{text}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_process_that_got_the_number_of_a_dead_server_is_left_alone() {
        let record = Record { pid: std::process::id(), port: 15_415, stop_signal: "KILL".into() };
        let folder = std::env::temp_dir().join(format!("pillarbox-record-{}", record.pid));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(RECORD), record.to_string()).unwrap();
        assert!(Instance::load(&folder).is_none());
        clear(&folder).unwrap();
        assert!(!folder.exists());
    }

    #[cfg(unix)]
    #[test]
    fn what_ignores_its_signal_is_killed() {
        let folder = std::env::temp_dir().join(format!("pillarbox-deaf-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let child = Command::new("tail").args(["-f", "/dev/null"]).stdout(Stdio::null()).spawn().unwrap();
        let record = Record { pid: child.id(), port: 15_415, stop_signal: "CONT".into() };
        let mut instance = Instance::note(&folder, record, child).unwrap();
        assert!(!instance.stop("CONT", Duration::from_millis(50)));
        assert!(instance.stop("KILL", KILLED));
        instance.end().unwrap();
        assert!(!folder.exists());
    }
}
