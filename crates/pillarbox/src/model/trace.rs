//! The W3C trace context of an event.

use super::{Headers, Invalid};

/// The header that carries the trace and span.
pub(crate) const TRACEPARENT: &str = "traceparent";
/// The header that carries vendor-specific trace data.
pub(crate) const TRACESTATE: &str = "tracestate";

/// The trace context that travels from the writing transaction to the listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    traceparent: String,
    tracestate: Option<String>,
}

impl TraceContext {
    /// Checks a `traceparent` of version 00 and an optional `tracestate`.
    pub fn new(traceparent: impl Into<String>, tracestate: Option<String>) -> Result<Self, Invalid> {
        let traceparent = traceparent.into();
        if well_formed(&traceparent) {
            return Ok(Self { traceparent, tracestate: tracestate.filter(|state| !state.is_empty()) });
        }
        let reason = "not version-trace-span-flags in lower-case hexadecimal digits".to_owned();
        Err(Invalid::Malformed { field: TRACEPARENT, reason })
    }

    /// Reads the context from headers, if it is well-formed.
    #[must_use]
    pub fn from_headers(headers: &Headers) -> Option<Self> {
        let state = headers.get(TRACESTATE).map(str::to_owned);
        Self::new(headers.get(TRACEPARENT)?, state).ok()
    }

    /// Writes the context to headers.
    pub(crate) fn write_to(&self, headers: &mut Headers) {
        headers.insert(TRACEPARENT.to_owned(), self.traceparent.clone());
        if let Some(state) = &self.tracestate {
            headers.insert(TRACESTATE.to_owned(), state.clone());
        }
    }

    /// The `traceparent` value.
    #[must_use]
    pub fn traceparent(&self) -> &str {
        &self.traceparent
    }

    /// The `tracestate` value.
    #[must_use]
    pub fn tracestate(&self) -> Option<&str> {
        self.tracestate.as_deref()
    }
}

fn well_formed(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let hex = |part: &str, len: usize| {
        part.len() == len && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let zero = |part: &str| part.bytes().all(|b| b == b'0');
    matches!(parts[..], [version, trace, span, flags]
        if hex(version, 2) && version != "ff" && hex(trace, 32) && !zero(trace) && hex(span, 16) && !zero(span) && hex(flags, 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PBX-020
    #[test]
    fn only_well_formed_trace_contexts_are_taken() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(TraceContext::new(good, None).unwrap().traceparent(), good);
        for bad in ["", "00", &good.to_uppercase(), "00-00000000000000000000000000000000-00f067aa0ba902b7-01"]
        {
            assert!(TraceContext::new(bad, None).is_err(), "{bad}");
        }
    }
}
