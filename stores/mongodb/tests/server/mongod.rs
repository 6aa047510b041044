//! Servers of a test's own: killed and started again as it likes, and removed with their value.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pillarbox_mongodb::mongodb::Client;
use pillarbox_mongodb::mongodb::bson::{Bson, Document, doc};
use tokio::time::timeout;
use uuid::Uuid;

/// Names the program.
pub(crate) const MONGOD: &str = "PILLARBOX_TEST_MONGOD";
/// How long a server may take to start, or a set to have a primary.
pub(crate) const STARTED: Duration = Duration::from_secs(60);
/// The name of every set.
const SET: &str = "s";
/// A primary that was killed is replaced after this long, and not after the usual 10 s.
const ELECTION_MS: i32 = 2_000;
/// As the servers that all tests share: a transaction whose process has died is ended after 15 s.
const AS_OTHERS: [&str; 8] = [
    "--nounixsocket",
    "--oplogSize=64",
    "--wiredTigerCacheSizeGB=0.25",
    "--wiredTigerEngineConfigString=log=(file_max=8MB,prealloc=false)",
    "--setParameter=enableTestCommands=1",
    "--setParameter=transactionLifetimeLimitSeconds=15",
    "--setParameter=diagnosticDataCollectionEnabled=false",
    "--bind_ip=127.0.0.1",
];

/// A folder of its own, removed with its value.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("pillarbox-mongod-{}", Uuid::now_v7().simple()));
        fs::create_dir_all(path.join("data"))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// One server.
pub(crate) struct Mongod {
    command: Command,
    process: Child,
    pub(crate) port: u16,
    pub(crate) folder: Folder,
}

impl Mongod {
    /// Starts one that is alone, unless the words say otherwise.
    pub(crate) fn start(program: &str, folder: Folder, words: &[&str]) -> std::io::Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = Command::new(program);
        command.args(AS_OTHERS).args(words).arg(format!("--port={port}"));
        command.arg("--dbpath").arg(folder.path().join("data"));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn()?;
        Ok(Self { command, process, port, folder })
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Kills it without a warning, and starts it on what it has written.
    fn start_again(&mut self, down: &mut dyn FnMut()) -> std::io::Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        down();
        self.process = self.command.spawn()?;
        Ok(())
    }
}

impl Drop for Mongod {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A replica set of three.
pub(crate) struct Three {
    members: Vec<Mongod>,
    pub(crate) client: Client,
}

impl Three {
    pub(crate) async fn start(program: &str) -> Result<Self, String> {
        let mut members = Vec::new();
        for _ in 0..3 {
            let folder = Folder::new().map_err(text)?;
            members.push(Mongod::start(program, folder, &["--replSet", SET]).map_err(text)?);
        }
        let addresses: Vec<String> = members.iter().map(Mongod::address).collect();
        let direct = format!("mongodb://{}/?directConnection=true", addresses[0]);
        let first = Client::with_uri_str(&direct).await.map_err(text)?;
        timeout(STARTED, initiate(&first, SET, &addresses)).await.map_err(text)?;
        let client = Client::with_uri_str(&url_of(&addresses, "admin")).await.map_err(text)?;
        Ok(Self { members, client })
    }

    pub(crate) fn url(&self, database: &str) -> String {
        let addresses: Vec<String> = self.members.iter().map(Mongod::address).collect();
        url_of(&addresses, database)
    }

    /// Has the primary step down, for longer than an election takes. Answered once there is another one.
    pub(crate) async fn step_down(&self) {
        let admin = self.client.database("admin");
        // It hangs up on whoever asks it, or says that it has; both are its way of doing it.
        let _ = admin.run_command(doc! { "replSetStepDown": 3, "secondaryCatchUpPeriodSecs": 2 }).await;
        self.ask(doc! { "ping": 1 }).await;
    }

    /// A client of the primary alone, also when it is no primary any more.
    pub(crate) async fn primary(&self) -> Client {
        loop {
            let hello = self.ask(doc! { "hello": 1 }).await;
            if let Ok(primary) = hello.get_str("primary") {
                let url = format!("mongodb://{primary}/?directConnection=true");
                return Client::with_uri_str(url).await.expect("the address of a member is valid");
            }
        }
    }

    /// Kills the primary and starts it again; `down` is called when it is gone. Answered once there is another one.
    pub(crate) async fn kill_primary(&mut self, down: &mut dyn FnMut()) -> Result<(), String> {
        let hello = self.ask(doc! { "hello": 1 }).await;
        let primary = hello.get_str("primary").map_err(text)?;
        let member = self.members.iter_mut().find(|member| member.address() == primary);
        member.ok_or("an unknown primary")?.start_again(down).map_err(text)?;
        self.ask(doc! { "ping": 1 }).await;
        Ok(())
    }

    /// Asks the primary, again and again where there is none.
    async fn ask(&self, command: Document) -> Document {
        loop {
            if let Ok(answer) = self.client.database("admin").run_command(command.clone()).await {
                return answer;
            }
        }
    }
}

/// Makes a set of servers that have just been started; answered once it has a primary.
pub(crate) async fn initiate(first: &Client, name: &str, addresses: &[String]) {
    let admin = first.database("admin");
    let member = |(place, address): (i32, &String)| Bson::from(doc! { "_id": place, "host": address });
    let members: Vec<Bson> = (0..).zip(addresses).map(member).collect();
    let settings = doc! { "electionTimeoutMillis": ELECTION_MS };
    let set = doc! { "_id": name, "members": members, "settings": settings };
    while admin.run_command(doc! { "replSetInitiate": set.clone() }).await.is_err() {}
    let is_ready = || async {
        let hello = admin.run_command(doc! { "hello": 1 }).await;
        hello.is_ok_and(|hello| hello.get_bool("isWritablePrimary").unwrap_or(false))
    };
    while !is_ready().await {}
}

fn url_of(addresses: &[String], database: &str) -> String {
    format!("mongodb://{}/{database}?replicaSet={SET}", addresses.join(","))
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
