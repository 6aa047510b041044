//! Runs other programs and reports how they ended.

use std::borrow::Cow;
use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum lines of a failed command's output in a message.
const LINES_SHOWN: usize = 10;
/// Maximum characters of the command in a message.
const LETTERS_SHOWN: usize = 200;

/// Poll interval for conditions without a signal.
const PAUSE: Duration = Duration::from_millis(20);

/// Time limit of a program that does little.
pub const SHORT: Duration = Duration::from_secs(30);

/// Runs a command with our output streams. The error says how it failed.
pub fn run(command: &mut Command) -> Result<(), String> {
    judge(command.status())
}

/// Whether a command succeeds. Its output is hidden.
pub fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Whether a program of this name is on the PATH.
pub fn is_there(program: &str) -> bool {
    env::var_os("PATH").is_some_and(|paths| env::split_paths(&paths).any(|path| path.join(program).is_file()))
}

/// The standard output of a short command, without the trailing line break.
pub fn answer(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("did not start: {error}"))?;
    let complaint = last_lines(&String::from_utf8_lossy(&output.stderr));
    judge(Ok(output.status)).map_err(|why| format!("{why}{complaint}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// Runs a command and appends its output to a file. The error contains `line`, how the command ended and the
/// last lines of its output.
pub fn logged(command: &mut Command, line: &str, log: &Path, limit: Duration) -> Result<(), String> {
    let told = |error: io::Error| format!("`{line}`: {}: {error}", log.display());
    let file = File::options().create(true).append(true).open(log).map_err(told)?;
    let begin = file.metadata().map_err(told)?.len();
    let both = file.try_clone().map_err(told)?;
    finish(command.stdout(both).stderr(file), limit)
        .map_err(|why| format!("`{line}` failed: {why}{}", last_lines(&read_from(log, begin))))
}

/// The last lines of an output, to append to the reason of a failure.
pub fn last_lines(text: &str) -> String {
    let plain = text.replace("\u{1b}[0m", "");
    let lines: Vec<&str> = plain.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LINES_SHOWN)..].iter().map(|line| format!("\n    {line}")).collect()
}

/// A command for messages, as a user would type it, shortened and without scripts.
pub fn line_of(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    let line = words.map(shown).collect::<Vec<_>>().join(" ");
    let cut: String = line.chars().take(LETTERS_SHOWN).collect();
    if cut.len() < line.len() { format!("{cut} …") } else { cut }
}

fn shown(word: &OsStr) -> Cow<'_, str> {
    let text = word.to_string_lossy();
    if text.contains('\n') { "…".into() } else { text }
}

fn read_from(log: &Path, begin: u64) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let begin = usize::try_from(begin).unwrap_or_default().min(bytes.len());
    String::from_utf8_lossy(&bytes[begin..]).into_owned()
}

/// Runs a command without input, and kills it at the limit.
pub fn finish(command: &mut Command, limit: Duration) -> Result<(), String> {
    let spawned = command.stdin(Stdio::null()).spawn();
    let mut child = spawned.map_err(|error| format!("did not start: {error}"))?;
    if wait_until(limit, || !matches!(child.try_wait(), Ok(None))) {
        judge(child.wait())
    } else {
        Err(end(&mut child, limit))
    }
}

/// The same command, bound to the thread that starts it: the system kills it when the thread ends, if the
/// system supports this.
pub fn bound(command: &Command) -> Command {
    let program = command.get_program();
    let mut bound = if is_there("setpriv") {
        let mut setpriv = Command::new("setpriv");
        setpriv.args(["--pdeathsig", "KILL"]).arg(program);
        setpriv
    } else {
        Command::new(program)
    };
    bound.args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        bound.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => bound.env(name, value),
            None => bound.env_remove(name),
        };
    }
    bound
}

/// Polls a condition. Returns whether it became true within the limit.
pub fn wait_until(limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if is_so() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(PAUSE);
    }
}

/// Kills a program that exceeded its limit. Returns a message that says so.
pub fn end(child: &mut Child, limit: Duration) -> String {
    let ended = child.kill().and_then(|()| child.wait());
    let left = if ended.is_ok() { "ended" } else { "still running" };
    format!("took longer than {limit:?} and was {left}")
}

/// Converts an exit status to a result. The error says how the program failed.
pub fn judge(status: io::Result<ExitStatus>) -> Result<(), String> {
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(status.to_string()),
        Err(error) => Err(format!("did not start: {error}")),
    }
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
    fn a_silent_program_is_ended_at_the_limit_too() {
        let why = finish(&mut shell("exec tail -f /dev/null"), Duration::from_millis(100)).unwrap_err();
        assert_eq!(why, "took longer than 100ms and was ended");
        assert_eq!(finish(&mut shell("exit 3"), LONG).unwrap_err(), "exit status: 3");
        finish(&mut shell("exit 0"), LONG).unwrap();
    }

    #[test]
    fn an_answer_comes_without_its_line_end() {
        assert_eq!(answer(&mut shell("echo yes")).unwrap(), "yes");
        assert_eq!(answer(&mut shell("echo yes; exit 1")).unwrap_err(), "exit status: 1");
    }

    #[test]
    fn a_failed_command_is_told_with_its_own_last_lines() {
        let log = env::temp_dir().join(format!("pillarbox-logged-{}", std::process::id()));
        logged(&mut shell("echo before"), "echo", &log, LONG).unwrap();
        let mut failing = shell("seq 1 12; echo; echo full >&2; exit 3");
        let why = logged(&mut failing, "seq", &log, LONG).unwrap_err();
        fs::remove_file(&log).unwrap();
        let lines: Vec<&str> = why.lines().collect();
        assert_eq!(lines[0], "`seq` failed: exit status: 3");
        assert_eq!((lines[1], lines[10], lines.len()), ("    4", "    full", 11));
    }

    #[test]
    fn a_long_command_is_cut() {
        assert_eq!(line_of(&shell("exit 3")), "sh -c exit 3");
        assert_eq!(line_of(&shell("exit 3\n")), "sh -c …");
        let line = line_of(&shell(&"a".repeat(1_000)));
        assert!(line.ends_with("aa …") && line.len() < 300, "{line}");
    }

    #[test]
    fn programs_are_looked_for_where_the_shell_does() {
        assert!(is_there("sh"));
        assert!(!is_there("no-such-program-of-pillarbox"));
    }

    #[test]
    fn a_program_that_is_not_there_is_told() {
        let mut missing = Command::new("no-such-program-of-pillarbox");
        assert!(run(&mut missing).unwrap_err().starts_with("did not start: "));
        assert!(!succeeds(&mut missing));
    }
}
