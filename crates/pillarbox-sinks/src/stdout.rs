//! The stdout sink: one line of JSON for each event, to a writer it is given.

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

/// A writer that sinks share.
#[derive(Clone)]
pub struct LineWriter(Arc<Mutex<Lines>>);

/// The writer, and the lines it is being given.
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
    /// Takes what lines are written to.
    pub fn new(writer: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        Self(Arc::new(Mutex::new(Lines { writer: Box::new(writer), bytes: Vec::new(), written: 0 })))
    }

    async fn write(&self, lines: &[u8]) -> io::Result<()> {
        // Lines of two batches must not mix, so the next one waits for this write; the sink's timeout bounds it.
        let mut guard = self.0.lock().await;
        guard.start(lines);
        guard.finish().await
    }
}

impl Lines {
    /// Puts lines after what is left of one that a failed or dropped write began.
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
    /// A sink on the writer of the options.
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
                return Err("the payload is not JSON; the format `cloudevents` writes it as text".to_owned());
            }
            _ => structured(event, &self.source)?,
        };
        // Inside a JSON text a line break stands between its parts only, never in a string.
        line.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
        line.push(b'\n');
        Ok(line)
    }

    /// Writes what stands before the first event without a line, which nothing goes past.
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
