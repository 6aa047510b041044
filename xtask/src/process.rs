//! Runs other programs and forwards their output.

use std::env;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use pillarbox_servers::process::{answer, bound, is_there, run, succeeds};
use pillarbox_servers::process::{end, judge};

/// Maximum number of lines read ahead. A child that prints faster waits.
const LINES_AHEAD: usize = 256;

/// A `cargo` command at the root of the workspace, with the cargo that runs this program.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    // Cargo sets these variables for the package that it runs, here xtask. Build scripts depend on them, so
    // with our values cargo would rebuild crates that it has built when a person called it.
    for (name, _) in env::vars_os().filter(|(name, _)| is_about_us(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command
}

fn is_about_us(variable: &str) -> bool {
    variable.starts_with("CARGO_PKG_") || variable.starts_with("CARGO_MANIFEST_")
}

/// Runs a command, prints each line of its output at once and passes it to `each`. Kills the command at the
/// limit.
pub(crate) fn stream(
    command: &mut Command,
    limit: Duration,
    mut each: impl FnMut(&str),
) -> Result<(), String> {
    let deadline = Instant::now() + limit;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("did not start: {error}"))?;
    let Some(output) = child.stdout.take() else { return Err("has no output to read".into()) };
    let lines = read_lines(output);
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                println!("{line}");
                each(&line);
            }
            Err(RecvTimeoutError::Disconnected) => return judge(child.wait()),
            Err(RecvTimeoutError::Timeout) => return Err(end(&mut child, limit)),
        }
    }
}

/// Runs a command and passes each line of standard output and error to `each`. Kills the command at the
/// limit.
pub(crate) fn follow(
    command: &mut Command,
    limit: Duration,
    mut each: impl FnMut(&str),
) -> Result<(), String> {
    let deadline = Instant::now() + limit;
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|error| format!("did not start: {error}"))?;
    let (sender, lines) = sync_channel(LINES_AHEAD);
    if let Some(output) = child.stdout.take() {
        send_lines(output, sender.clone());
    }
    if let Some(output) = child.stderr.take() {
        send_lines(output, sender);
    }
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => each(&line),
            Err(RecvTimeoutError::Disconnected) => return judge(child.wait()),
            Err(RecvTimeoutError::Timeout) => return Err(end(&mut child, limit)),
        }
    }
}

fn read_lines(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = sync_channel(LINES_AHEAD);
    send_lines(output, sender);
    receiver
}

fn send_lines(output: impl Read + Send + 'static, sender: SyncSender<String>) {
    thread::spawn(move || {
        let mut reader = BufReader::new(output);
        let mut line = Vec::new();
        while matches!(reader.read_until(b'\n', &mut line), Ok(1..)) {
            if sender.send(String::from_utf8_lossy(&line).trim_end().to_owned()).is_err() {
                break;
            }
            line.clear();
        }
    });
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn every_line_is_seen_in_order_even_the_unfinished_last_one() {
        let mut seen = Vec::new();
        stream(&mut shell("echo one; echo; printf three"), LONG, |line| seen.push(line.to_owned())).unwrap();
        assert_eq!(seen, ["one", "", "three"]);
    }

    #[test]
    fn failure_is_told_by_its_status_after_all_output() {
        let mut seen = 0;
        let why = stream(&mut shell("echo one; exit 3"), LONG, |_| seen += 1).unwrap_err();
        assert_eq!((seen, why.as_str()), (1, "exit status: 3"));
    }

    #[test]
    fn a_program_that_hangs_is_ended_at_the_limit() {
        let why =
            stream(&mut shell("exec tail -f /dev/null"), Duration::from_millis(100), |_| ()).unwrap_err();
        assert_eq!(why, "took longer than 100ms and was ended");
    }

    #[test]
    fn a_program_that_is_not_there_is_told() {
        let mut missing = Command::new("no-such-program-of-pillarbox");
        assert!(stream(&mut missing, LONG, |_| ()).unwrap_err().starts_with("did not start: "));
    }
}
