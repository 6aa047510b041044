//! Runs several test programs at once, and prints the output of those that fail.

use std::collections::VecDeque;
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::programs::Program;
use super::progress::Progress;
use super::stopwatch::{self, Stopwatch};
use crate::process;

/// Programs that run at once. About half of the tests wait for something, so the machine is not overloaded.
const PROGRAMS_AT_ONCE: usize = 3;
/// Time limit of a program, for one that hangs. The longest takes 18 minutes on two quiet cores, and a busy
/// machine may double that.
const LIMIT: Duration = Duration::from_secs(45 * 60);
/// Interval of progress lines while there is no other output.
const TELL_EVERY: Duration = Duration::from_secs(30);
/// Maximum lines of a failed program's output that are kept.
const LINES_KEPT: usize = 20_000;

/// A program that has ended.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) program: String,
    pub(super) ended: Result<(), String>,
    pub(super) took: Duration,
    pub(super) lines: Vec<String>,
    /// The names and times of its tests.
    pub(super) tests: Vec<(String, Duration)>,
}

/// Runs all programs, and last those that must run alone. Calls `each` as soon as a program ends.
pub(super) fn run(mut programs: Vec<Program>, exports: &[(&str, &str)], mut each: impl FnMut(Finished)) {
    programs.sort_by(|a, b| (a.rank(), &a.name).cmp(&(b.rank(), &b.name)));
    let (alone, together): (Vec<_>, Vec<_>) = programs.into_iter().partition(Program::runs_alone);
    run_at_once(PROGRAMS_AT_ONCE, together, exports, &mut each);
    run_at_once(1, alone, exports, &mut each);
}

fn run_at_once(
    threads: usize,
    programs: Vec<Program>,
    exports: &[(&str, &str)],
    each: &mut impl FnMut(Finished),
) {
    let progress = Progress::default();
    let queue = Mutex::new(VecDeque::from(programs));
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    thread::scope(|scope| {
        let (sender, finished) = sync_channel(threads);
        for _ in 0..threads {
            let (sender, progress) = (sender.clone(), &progress);
            scope.spawn(move || {
                while let Some(program) = next() {
                    if sender.send(run_one(&program, exports, progress)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        loop {
            match finished.recv_timeout(TELL_EVERY) {
                Ok(program) => each(program),
                Err(RecvTimeoutError::Timeout) => println!("… {progress}"),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
}

fn run_one(program: &Program, exports: &[(&str, &str)], progress: &Progress) -> Finished {
    let threads = program.threads();
    let listed = process::answer(Command::new(&program.path).arg("--list").current_dir(&program.folder));
    let mut command = Command::new(&program.path);
    command.args(["--test-threads", &threads.to_string()]).current_dir(&program.folder);
    // `cargo test` sets this variable too.
    command.env("CARGO_MANIFEST_DIR", &program.folder).envs(exports.iter().copied());
    let begun = Instant::now();
    let listed = stopwatch::listed(&listed.unwrap_or_default());
    progress.begin(&program.name, listed.len());
    let mut watch = Stopwatch::start(listed, threads, begun);
    let (mut lines, mut tests) = (Vec::new(), Vec::new());
    let ended = process::follow(&mut process::bound(&command), LIMIT, |line| {
        if let Some(test) = watch.read(line, Instant::now()) {
            progress.add(&program.name);
            tests.push(test);
        }
        if lines.len() < LINES_KEPT {
            lines.push(line.to_owned());
        }
    });
    progress.end(&program.name);
    Finished { program: program.name.clone(), ended, took: begun.elapsed(), lines, tests }
}
