//! The journal: one pipe that every process writes whole lines to, so that their order is the order of what happened.

use std::fmt;
use std::io::{BufRead, BufReader, PipeReader, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// Nothing at all happens for so long: something hangs.
const STUCK: Duration = Duration::from_secs(25);

/// What a worker reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    /// It delivers.
    Ready,
    /// Its listener took an event.
    Delivered { group: u32, number: u32, id: String },
    /// Its listener refused an event for now.
    Balked { id: String },
    /// A transaction was committed.
    Acked { ids: Vec<String> },
    /// A transaction was rolled back on purpose.
    RolledBack { ids: Vec<String> },
    /// A transaction failed.
    Failed { error: String },
    /// It writes no more.
    Written,
    /// What it logs.
    Log { text: String },
    /// It has closed its outbox.
    Left,
    /// The interruption with this number begins: a process is about to be killed or stopped, or the database has crashed.
    Interrupted(usize),
    /// The pending events were read after it. Done events stay done from here on.
    Counted(usize),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => write!(f, "ready"),
            Self::Delivered { group, number, id } => write!(f, "delivered {group} {number} {id}"),
            Self::Balked { id } => write!(f, "balked {id}"),
            Self::Acked { ids } => write!(f, "acked {}", ids.join(" ")),
            Self::RolledBack { ids } => write!(f, "rolled-back {}", ids.join(" ")),
            Self::Failed { error } => write!(f, "failed {error}"),
            Self::Written => write!(f, "written"),
            Self::Log { text } => write!(f, "log {text}"),
            Self::Left => write!(f, "left"),
            Self::Interrupted(number) => write!(f, "interrupted {number}"),
            Self::Counted(number) => write!(f, "counted {number}"),
        }
    }
}

impl What {
    fn parse(text: &str) -> Option<Self> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let ids = || rest.split_whitespace().map(str::to_owned).collect();
        Some(match word {
            "ready" => Self::Ready,
            "delivered" => {
                let mut words = rest.split(' ');
                let mut number = || words.next()?.parse().ok();
                let (group, number) = (number()?, number()?);
                Self::Delivered { group, number, id: words.next()?.to_owned() }
            }
            "balked" => Self::Balked { id: rest.to_owned() },
            "acked" => Self::Acked { ids: ids() },
            "rolled-back" => Self::RolledBack { ids: ids() },
            "failed" => Self::Failed { error: rest.to_owned() },
            "written" => Self::Written,
            "log" => Self::Log { text: rest.to_owned() },
            "left" => Self::Left,
            "interrupted" => Self::Interrupted(rest.parse().ok()?),
            "counted" => Self::Counted(rest.parse().ok()?),
            _ => return None,
        })
    }
}

/// One line.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// The incarnation that wrote it.
    pub(crate) by: String,
    pub(crate) what: What,
    /// When it was read, since the journal began.
    pub(crate) time: Duration,
}

/// Writes a line in one call: up to 4096 bytes of a pipe come out in one piece, also of a process that is killed.
pub(crate) fn write(label: &str, what: &What) {
    // Whoever reads has gone: standard input then ends too, and that is heeded.
    let _ = std::io::stdout().lock().write_all(line(label, what).as_bytes());
}

/// A whole line of the journal.
pub(crate) fn line(label: &str, what: &What) -> String {
    const LONGEST: usize = 1_000;
    let mut line: String = format!("{label} {what}").replace('\n', " ").chars().take(LONGEST).collect();
    line.push('\n');
    line
}

/// Everything that was reported so far, and what is still to come.
pub(crate) struct Journal {
    coming: Receiver<Line>,
    pub(crate) lines: Vec<Line>,
}

impl Journal {
    /// Reads a pipe to its end on a thread of its own, so that no writer ever waits.
    pub(crate) fn read(pipe: PipeReader) -> Self {
        const AHEAD: usize = 1_000_000;
        let (sender, coming) = sync_channel(AHEAD);
        let began = Instant::now();
        std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                let parsed = line.split_once(' ').and_then(|(by, what)| Some((by, What::parse(what)?)));
                let (by, what) = parsed.unwrap_or(("?", What::Log { text: line.clone() }));
                let time = began.elapsed();
                if sender.send(Line { by: by.to_owned(), what, time }).is_err() {
                    return;
                }
            }
        });
        Self { coming, lines: Vec::new() }
    }

    /// The next line; none if every process has ended.
    pub(crate) fn next(&mut self) -> Result<Option<&Line>, String> {
        match self.coming.recv_timeout(STUCK) {
            Ok(line) => {
                self.lines.push(line);
                Ok(self.lines.last())
            }
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(format!("nothing happened for {STUCK:?}")),
        }
    }

    /// Waits for so many lines like this.
    pub(crate) fn until(&mut self, mut count: usize, like: impl Fn(&Line) -> bool) -> Result<(), String> {
        while count > 0 {
            let line = self.next()?.ok_or("every process has ended")?;
            count -= usize::from(like(line));
        }
        Ok(())
    }
}
