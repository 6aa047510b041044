//! Readers that have gone: a closed standard output or error is noticed where it is written to, and ends the program in order.

use std::io::{self, Write};
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;
use tokio::sync::watch;

/// The streams belong to the process, and so does this.
static GONE: LazyLock<watch::Sender<bool>> = LazyLock::new(|| watch::Sender::new(false));

/// Waits until somebody was found to have stopped reading standard output or error.
pub async fn reader_gone() {
    // The sender is never dropped.
    let _ = GONE.subscribe().wait_for(|gone| *gone).await;
}

/// Looks whether standard output or error has lost its reader, without writing; for output that others write to.
pub fn look() -> bool {
    if is_closed(&io::stdout()) || is_closed(&io::stderr()) {
        GONE.send_replace(true);
    }
    *GONE.borrow()
}

/// Keeps the failure of a write in mind, if it says that nobody reads any more.
pub(crate) fn failed(error: &io::Error) {
    if error.kind() == io::ErrorKind::BrokenPipe {
        GONE.send_replace(true);
    }
}

#[cfg(unix)]
fn is_closed(stream: &impl std::os::fd::AsFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut asked = [PollFd::new(stream, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let answered = poll(&mut asked, Some(&at_once)).is_ok();
    answered && asked[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

#[cfg(not(unix))]
fn is_closed<T>(_: &T) -> bool {
    false
}

/// Standard error for a log: a write that fails is no error, since there is nowhere to tell.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Err(error) = io::stderr().lock().write_all(line) {
            failed(&error);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A writer to standard output whose failures are kept in mind.
#[derive(Debug)]
pub struct Watched<W>(pub W);

impl<W: AsyncWrite + Unpin> AsyncWrite for Watched<W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes).map_err(seen)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx).map_err(seen)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx).map_err(seen)
    }
}

fn seen(error: io::Error) -> io::Error {
    failed(&error);
    error
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_without_a_reader_is_closed_and_no_other() {
        let (reader, writer) = io::pipe().unwrap_or_else(|error| panic!("{error}"));
        assert!(!is_closed(&writer));
        drop(reader);
        assert!(is_closed(&writer));
    }
}
