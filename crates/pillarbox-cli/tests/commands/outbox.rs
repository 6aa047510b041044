//! An outbox in a temporary folder or on a server, and the binary run on it.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use pillarbox::model::{EventId, NodeId};
use pillarbox::port::{
    AnyTable, Change, Counts, Fence, Membership, OnDone, Outcome, ReadScope, Register, Settle,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

/// The binary, with an environment of its own.
pub(crate) fn pillarbox() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pillarbox"));
    command.env_clear().env("USER", "tester").stdin(Stdio::null());
    command
}

/// Runs the binary without a database.
pub(crate) fn run(arguments: &[&str]) -> Ran {
    Ran::of(pillarbox().args(arguments))
}

/// What a run of the binary gave.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn of(command: &mut Command) -> Self {
        Self::from(command.output().unwrap())
    }

    /// Demands an exit code.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    /// Demands success, and that nothing is complained about.
    #[track_caller]
    pub(crate) fn done(self) -> Self {
        let ran = self.exits(0);
        assert_eq!(ran.stderr, "", "{ran:#?}");
        ran
    }

    /// The one JSON document on standard output.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// The error of a failed command, as JSON.
    #[track_caller]
    pub(crate) fn error(&self) -> Value {
        let document: Value =
            serde_json::from_str(&self.stderr).unwrap_or_else(|error| panic!("{error}: {self:#?}"));
        let keys: Vec<&String> = document["error"].as_object().unwrap().keys().collect();
        assert_eq!(keys, ["hint", "kind", "message"], "{self:#?}");
        document["error"].clone()
    }

    /// Demands that standard error holds this.
    #[track_caller]
    pub(crate) fn complains(self, what: &str) -> Self {
        assert!(self.stderr.contains(what), "{what:?} is not in {self:#?}");
        self
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// An outbox whose tables are there.
pub(crate) struct Outbox {
    folder: TempDir,
    url: String,
    runtime: Runtime,
    store: AnyTable,
}

impl Outbox {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let url = format!("sqlite:{}", folder.path().join("outbox.db").display());
        Self::at(folder, url)
    }

    /// One in the flowcatalyst layout.
    pub(crate) fn of_items() -> Self {
        let folder = TempDir::new().unwrap();
        let url = format!("sqlite:{}", folder.path().join("items.db").display());
        Self::laid_out(folder, url, "flowcatalyst")
    }

    /// An outbox at a URL; the tables are made.
    pub(crate) fn at(folder: TempDir, url: String) -> Self {
        Self::laid_out(folder, url, "native")
    }

    fn laid_out(folder: TempDir, url: String, layout: &str) -> Self {
        Ran::of(pillarbox().args(["migrate", "--layout", layout, "--database-url", &url])).done();
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let store = runtime.block_on(pillarbox_stores::connect(&url, &pillarbox_stores::Options::default()));
        Self { folder, url, runtime, store: store.unwrap() }
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    /// A path beside the database.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = pillarbox();
        command.args(arguments).env("PILLARBOX_DATABASE_URL", self.url());
        command
    }

    /// Runs the binary on this outbox.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(&mut self.command(arguments))
    }

    /// Runs the binary on this outbox with something on its standard input.
    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> Ran {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        Ran::from(child.wait_with_output().unwrap())
    }

    /// Writes an event and gives its id.
    #[track_caller]
    pub(crate) fn write(&self, arguments: &[&str]) -> String {
        let ran = self.run(&[&["write"], arguments].concat()).done();
        ran.stdout.trim_end().to_owned()
    }

    /// What `events show` tells of an event.
    #[track_caller]
    pub(crate) fn shown(&self, id: &str) -> Value {
        self.run(&["events", "show", id, "--json"]).done().json()
    }

    /// Writes an event and lets it die.
    pub(crate) fn dead(&self, arguments: &[&str], error: &str) -> String {
        let id = self.write(arguments);
        self.settle(&id, Change::Dead { error: error.to_owned(), counts: Counts::Made(1), blocks: None });
        id
    }

    /// Writes an event of a group and lets it die, so that its group is blocked.
    pub(crate) fn dead_head(&self, group: &str, error: &str) -> String {
        let id = self.write(&["--type", "order.placed", "--group", group]);
        let blocks = Some(pillarbox::model::GroupKey::new(group));
        self.settle(&id, Change::Dead { error: error.to_owned(), counts: Counts::Made(1), blocks });
        id
    }

    /// Writes an event and has it delivered.
    pub(crate) fn delivered(&self, arguments: &[&str]) -> String {
        let id = self.write(arguments);
        self.settle(&id, Change::Done);
        id
    }

    /// Changes a row as its deliverer would.
    pub(crate) fn settle(&self, id: &str, change: Change) {
        self.runtime.block_on(async {
            let shown = self.store.admin().show(EventId::from_row(id)).await.unwrap().unwrap();
            let outcome =
                Outcome { seq: shown.record.seq, id: shown.record.id, token: shown.record.token, change };
            let outcomes = vec![outcome].into();
            let settle =
                Settle { fence: Fence::Open, outcomes, on_done: OnDone::Keep, repeats: None, now: None };
            let settled = self.store.settle(settle).await.unwrap();
            assert!(settled.stale.is_empty());
        });
    }

    /// Runs something on the store of this outbox.
    pub(crate) fn with_store<T>(&self, act: impl AsyncFnOnce(&AnyTable) -> T) -> T {
        self.runtime.block_on(act(&self.store))
    }

    /// Adds a node.
    pub(crate) fn join(&self, label: &str) -> Membership {
        let lease = std::time::Duration::from_secs(60);
        let join = Register {
            node: NodeId::from_random(7),
            label: label.to_owned(),
            reads: ReadScope::Share,
            lease,
            now: None,
        };
        self.runtime.block_on(self.store.register(join)).unwrap()
    }

    /// Changes the row of an event by plain SQL, as another program would. Only on SQLite.
    pub(crate) fn update(&self, id: &str, set: &str) {
        let file = self.url.strip_prefix("sqlite:").unwrap();
        let connection = pillarbox_sqlite::rusqlite::Connection::open(file).unwrap();
        let changed = connection.execute(&format!("UPDATE outbox_event SET {set} WHERE event_id = ?1"), [id]);
        assert_eq!(changed.unwrap(), 1);
    }

    /// Runs SQL as another program would. Only on SQLite.
    pub(crate) fn execute(&self, sql: &str) {
        let file = self.url.strip_prefix("sqlite:").unwrap();
        pillarbox_sqlite::rusqlite::Connection::open(file).unwrap().execute_batch(sql).unwrap();
    }

    /// Who did what, newest first.
    pub(crate) fn audit(&self) -> Vec<(String, String, String)> {
        let entries = self.runtime.block_on(self.store.admin().audit(100)).unwrap();
        entries.into_iter().map(|entry| (entry.by, entry.action, entry.target)).collect()
    }
}
