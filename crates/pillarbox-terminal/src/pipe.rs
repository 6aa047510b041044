//! Detects that the reader of standard output or error is gone, so that the program can shut down.

use std::io::{self, Write};
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;
use tokio::sync::watch;

/// Whether a reader is gone. It is global, as the streams are.
static GONE: LazyLock<watch::Sender<bool>> = LazyLock::new(|| watch::Sender::new(false));

/// Waits until standard output or error has lost its reader.
pub async fn reader_gone() {
    // The sender is never dropped.
    let _ = GONE.subscribe().wait_for(|gone| *gone).await;
}

/// Checks without writing whether standard output or error has lost its reader. For streams that child
/// processes write to.
pub fn look() -> bool {
    if is_closed(&io::stdout()) || is_closed(&io::stderr()) {
        GONE.send_replace(true);
    }
    *GONE.borrow()
}

/// Remembers a failed write if it says that the reader is gone.
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

/// Standard error as the writer of a log. It ignores failed writes, because they can't be reported anywhere.
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

/// A writer to standard output that notices when the reader is gone.
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
