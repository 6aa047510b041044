//! Servers: the one that the environment names, and one of a test's own that it can kill and start again.

use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

/// Below the ports that the system gives to clients, one of which would hold a port while its server is down.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
/// What a server may take for itself beside its own port.
const PORTS_EACH: u16 = 3;
const READY: Duration = Duration::from_secs(90);
const LINES_AHEAD: usize = 1_024;

/// The value of a variable, or a line that says what could not run.
pub(crate) fn variable(name: &str, what: &str) -> Option<String> {
    let value = env::var(name).ok().filter(|value| !value.is_empty());
    if value.is_none() {
        let mut out = std::io::stdout();
        writeln!(out, "could not run: {what}: {name} is not set; `cargo xtask test` starts a server")
            .unwrap();
    }
    value
}

/// How a server is started: with its data folder and its port.
type Start = Box<dyn Fn(&Path, u16) -> Command + Send>;

/// A server of a test's own.
pub(crate) struct Server {
    start: Start,
    /// What it prints when it takes connections.
    ready: &'static str,
    data: TempDir,
    pub(crate) port: u16,
    running: Option<(Child, Receiver<String>)>,
}

impl Server {
    pub(crate) fn new(ready: &'static str, start: impl Fn(&Path, u16) -> Command + Send + 'static) -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut server = Self { start: Box::new(start), ready, data, port: free_port(), running: None };
        server.start();
        server
    }

    pub(crate) fn data(&self) -> &Path {
        self.data.path()
    }

    /// Starts it on the data that is there, and waits until it says that it is ready.
    pub(crate) fn start(&mut self) {
        let mut command = (self.start)(self.data.path(), self.port);
        let (reader, writer) = std::io::pipe().unwrap();
        command.stdin(Stdio::null()).stdout(writer.try_clone().unwrap()).stderr(writer);
        let child = command.spawn().unwrap();
        // Until it is dropped the pipe stays open, whatever becomes of the server.
        drop(command);
        let lines = lines_of(reader);
        let mut last = String::new();
        loop {
            match lines.recv_timeout(READY) {
                Ok(line) if line.contains(self.ready) => break,
                Ok(line) => last = line,
                Err(error) => panic!("the server is not ready: {error}; {last}"),
            }
        }
        self.running = Some((child, lines));
    }

    /// Ends it at once, and waits until its last process is gone.
    pub(crate) fn kill(&mut self) {
        let Some((mut child, lines)) = self.running.take() else { return };
        child.kill().unwrap();
        child.wait().unwrap();
        // The pipe ends when nobody is left to write to it.
        while lines.recv_timeout(READY).is_ok() {}
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn lines_of(reader: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = sync_channel(LINES_AHEAD);
    thread::spawn(move || {
        for line in BufReader::new(reader).lines().map_while(Result::ok) {
            // Whoever reads no more must not stop the server from printing.
            let _ = sender.try_send(line);
        }
    });
    lines
}

fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let span = PORTS.end - PORTS.start;
    let own = (std::process::id() * 97 % u32::from(span)) as u16;
    let free =
        |port: &u16| (0..PORTS_EACH).all(|n| TcpListener::bind((Ipv4Addr::LOCALHOST, port + n)).is_ok());
    let candidates = (0..span).map(|_| {
        let offset = NEXT.fetch_add(PORTS_EACH, Ordering::Relaxed);
        PORTS.start + (own + offset % span) % (span - PORTS_EACH)
    });
    candidates.into_iter().find(free).unwrap()
}
