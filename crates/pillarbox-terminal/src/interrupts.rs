//! Handles Ctrl-C and SIGTERM, so that a program can shut down gracefully.

use std::io;

/// A listener for SIGINT and SIGTERM. Before it is created, an interrupt ends the process at once.
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

    /// Waits for an interrupt. One that arrived since [`Interrupts::listen`] counts too.
    pub async fn come(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// A listener for Ctrl-C, which starts with the first wait.
#[cfg(not(unix))]
#[derive(Debug)]
pub struct Interrupts;

#[cfg(not(unix))]
impl Interrupts {
    /// Begins to listen.
    pub fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    /// Waits for Ctrl-C.
    pub async fn come(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}
