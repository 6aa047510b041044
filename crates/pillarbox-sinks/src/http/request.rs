//! Builds the headers and the body of a request.

use std::io::Write as _;

use bytes::Bytes;
use flate2::write::GzEncoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use sha2::{Digest as _, Sha256};

use super::part::Part;
use crate::envelope::trace;
use crate::options::Compression;

/// Characters that are percent-encoded in a list of ids: separators, and all but visible ASCII.
const OUTSIDE_LIST: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%').add(b',');
/// Maximum length of the list of event ids in a header, in bytes. A longer list is replaced by its first and
/// last id.
const IDS_MAX: usize = 4_096;
/// Bodies larger than this, in bytes, are compressed on a blocking thread.
const INLINE_MAX: usize = 128 * 1024;
/// The default level of zstd, little slower than the fastest.
const ZSTD_LEVEL: i32 = 3;

/// The headers of a request with these events.
pub(super) fn headers(parts: &[Part<'_>], content_type: &'static str, compression: Compression) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    if let Some(encoding) = encoding(compression) {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    let mut add = |name: &str, value: &str| {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(value)) {
            headers.insert(name, value);
        }
    };
    add("idempotency-key", &idempotency_key(parts));
    add("pillarbox-event-count", &parts.len().to_string());
    let ids: Vec<String> = parts.iter().map(|part| listed(part.event.id().as_str())).collect();
    let list = ids.join(",");
    match (ids.first(), ids.last()) {
        (Some(first), Some(last)) if list.len() > IDS_MAX => {
            add("pillarbox-event-first", first);
            add("pillarbox-event-last", last);
        }
        _ => add("pillarbox-event-ids", &list),
    }
    for (name, value) in parts.first().map(|part| trace(part.event)).unwrap_or_default() {
        add(&name, &value);
    }
    headers
}

/// A key that depends only on the events and their order, so that a redelivery has the same one.
fn idempotency_key(parts: &[Part<'_>]) -> String {
    let mut hash = Sha256::new();
    for id in parts.iter().map(|part| part.event.id().as_str()) {
        hash.update((id.len() as u64).to_be_bytes());
        hash.update(id);
    }
    let mut first = [0; 16];
    first.copy_from_slice(&hash.finalize()[..16]);
    format!("{:032x}", u128::from_be_bytes(first))
}

/// Encodes an id for a list.
fn listed(id: &str) -> String {
    utf8_percent_encode(id, OUTSIDE_LIST).to_string()
}

/// The JSON array of the parts, byte for byte and in order, and compressed if configured.
pub(super) async fn body(parts: &[Part<'_>], compression: Compression) -> Result<Bytes, String> {
    let len = parts.iter().map(|part| part.json.len() + 1).sum::<usize>();
    let mut body = Vec::with_capacity(len + 2);
    for part in parts {
        body.push(if body.is_empty() { b'[' } else { b',' });
        body.extend_from_slice(&part.json);
    }
    body.push(b']');
    let compressed = match compression {
        Compression::None => return Ok(body.into()),
        _ if body.len() <= INLINE_MAX => compressed(&body, compression),
        _ => match tokio::task::spawn_blocking(move || compressed(&body, compression)).await {
            Ok(compressed) => compressed,
            Err(error) => Err(std::io::Error::other(error)),
        },
    };
    compressed.map(Bytes::from).map_err(|error| format!("the body can't be compressed: {error}"))
}

fn compressed(body: &[u8], compression: Compression) -> std::io::Result<Vec<u8>> {
    match compression {
        Compression::None => Ok(body.to_vec()),
        Compression::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(body)?;
            encoder.finish()
        }
        Compression::Zstd => zstd::bulk::compress(body, ZSTD_LEVEL),
    }
}

fn encoding(compression: Compression) -> Option<&'static str> {
    match compression {
        Compression::None => None,
        Compression::Gzip => Some("gzip"),
        Compression::Zstd => Some("zstd"),
    }
}
