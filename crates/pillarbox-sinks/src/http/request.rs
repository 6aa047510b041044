//! Builds the headers and the body of a request.

use std::io::Write as _;

use bytes::Bytes;
use flate2::write::GzEncoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use sha2::{Digest as _, Sha256};

use super::element::{Element, Json, Maker};
use crate::envelope::trace;
use crate::options::Compression;
use crate::transport::{Frames, FramesBuilder};

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
pub(super) fn headers(elements: &[Element<'_>], maker: &Maker, compression: Compression) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(maker.content_type()));
    if let Some(encoding) = encoding(compression) {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    let mut add = |name: &str, value: &str| {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(value)) {
            headers.insert(name, value);
        }
    };
    add("idempotency-key", &idempotency_key(elements, maker.own_source()));
    add("pillarbox-event-count", &elements.len().to_string());
    let ids: Vec<String> = elements.iter().map(|element| listed(element.event.id().as_str())).collect();
    let list = ids.join(",");
    match (ids.first(), ids.last()) {
        (Some(first), Some(last)) if list.len() > IDS_MAX => {
            add("pillarbox-event-first", first);
            add("pillarbox-event-last", last);
        }
        _ => add("pillarbox-event-ids", &list),
    }
    for (name, value) in elements.first().map(|element| trace(element.event)).unwrap_or_default() {
        add(&name, &value);
    }
    headers
}

/// A key that depends only on the source, the events and their order, so that a redelivery has the same one.
/// Two outboxes may have events with equal ids: a source of its own tells their keys apart.
fn idempotency_key(elements: &[Element<'_>], source: Option<&str>) -> String {
    let mut hash = Sha256::new();
    for text in source.into_iter().chain(elements.iter().map(|element| element.event.id().as_str())) {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
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
pub(super) async fn body(elements: &[Element<'_>], compression: Compression) -> Result<Frames, String> {
    let mut body = FramesBuilder::default();
    for (place, element) in elements.iter().enumerate() {
        body.copy(if place == 0 { b"[" } else { b"," });
        match &element.json {
            Json::Payload => body.payload(element.event),
            Json::Envelope(json) => body.copy(json),
        }
    }
    body.copy(b"]");
    let body = body.finish();
    let compressed = match compression {
        Compression::None => return Ok(body),
        _ if body.len() <= INLINE_MAX => compressed(&body, compression),
        _ => match tokio::task::spawn_blocking(move || compressed(&body, compression)).await {
            Ok(compressed) => compressed,
            Err(error) => Err(std::io::Error::other(error)),
        },
    };
    let body = compressed.map_err(|error| format!("the body can't be compressed: {error}"))?;
    Ok(Bytes::from(body).into())
}

fn compressed(body: &Frames, compression: Compression) -> std::io::Result<Vec<u8>> {
    match compression {
        Compression::None => Ok(body.pieces().collect::<Vec<_>>().concat()),
        Compression::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
            body.pieces().try_for_each(|piece| encoder.write_all(piece))?;
            encoder.finish()
        }
        Compression::Zstd => {
            let mut encoder = zstd::Encoder::new(Vec::new(), ZSTD_LEVEL)?;
            encoder.set_pledged_src_size(Some(body.len() as u64))?;
            encoder.include_contentsize(true)?;
            body.pieces().try_for_each(|piece| encoder.write_all(piece))?;
            encoder.finish()
        }
    }
}

fn encoding(compression: Compression) -> Option<&'static str> {
    match compression {
        Compression::None => None,
        Compression::Gzip => Some("gzip"),
        Compression::Zstd => Some("zstd"),
    }
}
