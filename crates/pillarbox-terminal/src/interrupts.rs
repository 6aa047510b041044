//! Ctrl-C and the signal that asks a process to end: from the start on, so that nothing is left behind.

use std::io;

/// Listens from when it is made; until then an interrupt ends the process at once.
#[cfg(unix)]
#[derive(Debug)]
pub struct Interrupts {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Interrupts {
    /// Begins to listen.
    pub fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for one; one that came before counts.
    pub async fn come(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Listens from when it is first waited for.
#[cfg(not(unix))]
#[derive(Debug)]
pub struct Interrupts;

#[cfg(not(unix))]
impl Interrupts {
    /// Begins to listen.
    pub fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    /// Waits for one.
    pub async fn come(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}
