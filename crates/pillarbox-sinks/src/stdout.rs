//! The stdout sink: writes one line of JSON per event to a given writer.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use pillarbox::model::Payload;
use pillarbox::port::{Cause, Delivery, Handed, Sink, Verdict};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Mutex;

use crate::envelope::{Format, is_json, structured};
use crate::error::SinkError;
use crate::fault::Fault;
use crate::options::SinkOptions;

/// A writer that several sinks can share.
#[derive(Clone)]
pub struct LineWriter(Arc<Mutex<Lines>>);

/// The writer and the bytes of the current write.
struct Lines {
    writer: Box<dyn AsyncWrite + Send + Unpin>,
    bytes: Vec<u8>,
    written: usize,
}

impl fmt::Debug for LineWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LineWriter")
    }
}

impl LineWriter {
    /// Wraps the writer that lines go to.
    pub fn new(writer: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        Self(Arc::new(Mutex::new(Lines { writer: Box::new(writer), bytes: Vec::new(), written: 0 })))
    }

    async fn write(&self, lines: &[u8]) -> io::Result<()> {
        // Held during the write, so that lines of two batches don't mix. The sink's timeout limits the wait.
        let mut guard = self.0.lock().await;
        guard.start(lines);
        guard.finish().await
    }
}

impl Lines {
    /// Replaces the bytes to write. If a failed or cancelled write stopped within a line, the rest of that
    /// line comes first, so that the new lines begin on a line of their own.
    fn start(&mut self, lines: &[u8]) {
        let left = self.bytes.split_off(self.written);
        let within_line = self.bytes.last().is_some_and(|last| *last != b'\n');
        let end = left.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.bytes.clear();
        self.written = 0;
        if within_line {
            self.bytes.extend_from_slice(&left[..end]);
        }
        self.bytes.extend_from_slice(lines);
    }

    async fn finish(&mut self) -> io::Result<()> {
        while self.written < self.bytes.len() {
            match self.writer.write(&self.bytes[self.written..]).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                taken => self.written += taken,
            }
        }
        self.writer.flush().await
    }
}

/// Writes events as lines of JSON.
pub struct StdoutSink {
    writer: LineWriter,
    format: Format,
    source: String,
    timeout: Duration,
}

impl StdoutSink {
    /// Opens a sink that writes to the writer of the options.
    pub fn open(options: &SinkOptions) -> Result<Self, SinkError> {
        let writer = options.writer.clone();
        let writer = writer.ok_or_else(|| SinkError::option("writer", "the program passed none in"))?;
        if options.format == Format::CloudEventsBinary {
            let reason = "lines have no headers to put attributes in: use raw or cloudevents";
            return Err(SinkError::option("format", reason));
        }
        Ok(Self { writer, format: options.format, source: options.source.clone(), timeout: options.timeout })
    }

    fn line(&self, delivery: &Delivery) -> Result<Vec<u8>, String> {
        let event = &delivery.event;
        let mut line = match (self.format, event.payload()) {
            (Format::Raw, payload @ Payload::Json(_)) if is_json(payload.as_bytes()) => {
                payload.as_bytes().to_vec()
            }
            (Format::Raw, _) => {
                return Err("the payload is not JSON; the format `cloudevents` sends it in base64".to_owned());
            }
            _ => structured(event, &self.source)?,
        };
        // Safe: JSON allows raw line breaks only between tokens, never inside a string.
        line.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
        line.push(b'\n');
        Ok(line)
    }

    /// Writes the events before the first one that has no JSON form. Nothing is written past that event.
    async fn write(&self, batch: &[Delivery]) -> Vec<Verdict> {
        let mut bytes = Vec::new();
        let mut verdicts = Vec::with_capacity(batch.len());
        for delivery in batch {
            match self.line(delivery) {
                Ok(line) => {
                    bytes.extend(line);
                    verdicts.push(Verdict::Accepted);
                }
                Err(error) => {
                    verdicts.push(Verdict::Rejected { error });
                    break;
                }
            }
        }
        let failed = match tokio::time::timeout(self.timeout, self.writer.write(&bytes)).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(Fault::from(format!("the output can't be written: {}", error.kind()))),
            Err(_) => {
                Some(Fault::new(Cause::Timeout, format!("the output took no line in {:?}", self.timeout)))
            }
        };
        if let Some(fault) = failed {
            return vec![fault.verdict(); batch.len()];
        }
        verdicts.resize(batch.len(), Verdict::Skipped);
        verdicts
    }
}

impl Sink for StdoutSink {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> Handed<'a> {
        Box::pin(self.write(batch))
    }
}
