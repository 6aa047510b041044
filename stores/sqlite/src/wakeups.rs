//! Wake-ups for commits of any process: a thread watches the WAL file, not the database.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use pillarbox::port::Wakeups;
use tokio::sync::watch;

/// How often the file is checked while commits arrive.
const BUSY_STEP: Duration = Duration::from_millis(20);
/// How often the file is checked after [`BUSY_FOR`] without a commit.
const IDLE_STEP: Duration = Duration::from_millis(50);
const BUSY_FOR: Duration = Duration::from_secs(2);

/// The modification time and the size, which tell one state of a file from another.
type FileState = Option<(SystemTime, u64)>;

/// The handle of the watcher thread. When it is dropped, the thread ends at once.
pub(crate) struct Watcher {
    changed: Option<watch::Receiver<u64>>,
    _stop: SyncSender<()>,
}

impl Watcher {
    pub(crate) fn start(database: &Path) -> Self {
        let mut log = OsString::from(database);
        log.push("-wal");
        let log = PathBuf::from(log);
        // The first look happens here and not on the thread, so no commit after this call is missed.
        let seen = file_state(&log);
        let (stop, stopped) = sync_channel(0);
        let (changes, changed) = watch::channel(0);
        let thread = thread::Builder::new().name("pillarbox-wakeups".to_owned());
        let started = thread.spawn(move || watch_file(&log, seen, &stopped, &changes));
        Self { changed: started.is_ok().then_some(changed), _stop: stop }
    }

    /// None if the thread could not be started: readers then poll.
    pub(crate) fn wakeups(&self) -> Option<Wakeups> {
        self.changed.clone().map(Wakeups)
    }
}

fn watch_file(log: &Path, mut seen: FileState, stopped: &Receiver<()>, changes: &watch::Sender<u64>) {
    let mut busy_until = Instant::now();
    let mut again = false;
    loop {
        let step = if Instant::now() < busy_until { BUSY_STEP } else { IDLE_STEP };
        if stopped.recv_timeout(step) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        let now = file_state(log);
        let changed = now != seen;
        if changed || again {
            changes.send_modify(|count| *count += 1);
        }
        // File times tick every few milliseconds, so a second write within one tick shows no change. A second
        // wake-up covers it.
        again = changed;
        seen = now;
        if changed {
            busy_until = Instant::now() + BUSY_FOR;
        }
    }
}

fn file_state(log: &Path) -> FileState {
    let metadata = fs::metadata(log).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}
