//! The body of a request in pieces, so that large payloads are sent from where they are instead of being copied together.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pillarbox::Event;

/// Payloads of at least this many bytes become a piece of their own.
const SHARED_MIN: usize = 64 * 1024;

/// A body whose pieces are sent one after the other. Its length is known, so that the request is not chunked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Frames(VecDeque<Bytes>);

impl Frames {
    /// The pieces, in order.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|piece| &piece[..])
    }

    /// The length of the body in bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    /// The body for the client. A single piece is passed on as it is, which lets the client send it again.
    pub(crate) fn into_body(mut self) -> reqwest::Body {
        match self.0.pop_front() {
            Some(piece) if self.0.is_empty() => piece.into(),
            Some(piece) => {
                self.0.push_front(piece);
                reqwest::Body::wrap(self)
            }
            None => Bytes::new().into(),
        }
    }
}

impl From<Bytes> for Frames {
    fn from(body: Bytes) -> Self {
        Self(VecDeque::from([body]))
    }
}

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.get_mut().0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len() as u64)
    }
}

/// Collects a body.
#[derive(Debug, Default)]
pub(crate) struct FramesBuilder {
    frames: Frames,
    /// What was added since the last shared payload.
    tail: Vec<u8>,
}

impl FramesBuilder {
    /// Adds a copy of these bytes.
    pub(crate) fn copy(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
    }

    /// Adds the payload of an event, without copying it if it is large.
    pub(crate) fn payload(&mut self, event: &Event) {
        if event.payload().size() < SHARED_MIN {
            return self.copy(event.payload().as_bytes());
        }
        self.cut();
        self.frames.0.push_back(Bytes::from_owner(Shared(event.clone())));
    }

    /// The body.
    pub(crate) fn finish(mut self) -> Frames {
        self.cut();
        self.frames
    }

    fn cut(&mut self) {
        if !self.tail.is_empty() {
            self.frames.0.push_back(std::mem::take(&mut self.tail).into());
        }
    }
}

/// The payload of an event. The clone shares the event's memory.
struct Shared(Event);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.payload().as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PBX-013
    #[test]
    fn a_large_payload_is_not_copied_and_small_ones_share_a_piece() {
        let event = |payload: String| Event::text("t", payload).build().unwrap();
        let large = event(format!("\"{}\"", "a".repeat(SHARED_MIN)));
        let mut builder = FramesBuilder::default();
        builder.copy(b"[");
        builder.payload(&event("1".to_owned()));
        builder.copy(b",");
        builder.payload(&large);
        builder.copy(b"]");
        let frames = builder.finish();
        let pieces: Vec<&[u8]> = frames.pieces().collect();
        assert_eq!(pieces, [b"[1,", large.payload().as_bytes(), b"]"]);
        assert_eq!(pieces[1].as_ptr(), large.payload().as_bytes().as_ptr());
        assert_eq!(frames.size_hint().exact(), Some(frames.len() as u64));
    }
}
