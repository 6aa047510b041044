//! The stdout sink, and opening by URL.

use std::time::Duration;

use pillarbox::Event;
use pillarbox_sinks::{Format, LineWriter, SinkError, SinkOptions, open};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, duplex};

use crate::kit::{batch, delivery, error, event, kinds, options, sink, soon};

fn writing(writer: LineWriter, format: Format) -> SinkOptions {
    SinkOptions { writer: Some(writer), format, ..options() }
}

/// PBX-020
#[tokio::test]
async fn events_are_lines_raw_or_as_cloudevents() {
    for format in [Format::Raw, Format::CloudEventsStructured] {
        let (writer, reader) = duplex(64 * 1024);
        let sink = sink("stdout:", &writing(LineWriter::new(writer), format));
        let batch = [event("e0", "{\"a\":\n1}"), event("e1", "{\"a\":\r\n2}")].map(delivery);
        assert_eq!(kinds(&sink.deliver(&batch).await), ["accepted"; 2]);
        drop(sink);
        let mut lines = BufReader::new(reader).lines();
        for n in 1..=2 {
            let line: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
            let data = if format == Format::Raw { &line } else { &line["data"] };
            assert_eq!(data["a"], n);
        }
        assert_eq!(lines.next_line().await.unwrap(), None);
    }
}

/// RLY-043, PBX-010
#[tokio::test]
async fn what_is_not_json_is_rejected_raw_and_written_as_a_cloudevent() {
    let batch = [delivery(event("e0", "0")), delivery(Event::bytes("t", [255])), delivery(event("e2", "2"))];
    for (format, expected, count) in [
        (Format::Raw, ["accepted", "rejected", "skipped"], 1),
        (Format::CloudEventsStructured, ["accepted"; 3], 3),
    ] {
        let (writer, mut reader) = duplex(64 * 1024);
        let sink = sink("stdout:", &writing(LineWriter::new(writer), format));
        assert_eq!(kinds(&sink.deliver(&batch).await), expected);
        drop(sink);
        let mut text = String::new();
        reader.read_to_string(&mut text).await.unwrap();
        assert_eq!(text.lines().count(), count, "nothing goes past what is rejected");
    }
}

#[tokio::test]
async fn a_closed_pipe_is_unavailable() {
    let (writer, reader) = duplex(16);
    drop(reader);
    let sink = sink("stdout:", &writing(LineWriter::new(writer), Format::Raw));
    let verdicts = sink.deliver(&batch(2)).await;
    assert_eq!(kinds(&verdicts), ["unavailable"; 2]);
    assert!(error(&verdicts[0]).contains("broken pipe"), "{verdicts:?}");
}

#[tokio::test]
async fn a_line_that_was_cut_off_is_finished_first() {
    let (writer, mut reader) = duplex(4);
    let mut options = writing(LineWriter::new(writer), Format::Raw);
    options.timeout = Duration::from_millis(50);
    let full = sink("stdout:", &options);
    let first = [delivery(event("e0", "[1,2,3]")), delivery(event("e1", "[4]"))];
    assert_eq!(kinds(&full.deliver(&first).await), ["unavailable"; 2]);
    options.timeout = Duration::from_secs(30);
    let patient = sink("stdout:", &options);
    let read = async {
        let mut text = vec![0; "[1,2,3]\n[1,2,3]\n[4]\n".len()];
        reader.read_exact(&mut text).await.unwrap();
        String::from_utf8(text).unwrap()
    };
    let (verdicts, text) = soon(async { tokio::join!(patient.deliver(&first), read) }).await;
    assert_eq!(kinds(&verdicts), ["accepted"; 2]);
    assert_eq!(text, "[1,2,3]\n[1,2,3]\n[4]\n");
}

/// PBX-023
#[tokio::test]
async fn urls_that_open_nothing_say_why() {
    let refused = |url: &str| open(url, &options()).err().unwrap();
    assert!(matches!(refused("stdout:"), SinkError::Option { option: "writer", .. }));
    assert!(matches!(refused("nothing"), SinkError::Url { .. }));
    assert!(matches!(refused("ftp://x"), SinkError::Scheme { .. }));
    assert!(matches!(refused(&format!("http://{}", "x".repeat(5_000))), SinkError::Url { .. }));
    let error = refused("a user s3cret:x@y").to_string();
    assert!(!error.contains("s3cret"), "{error}");
    let (writer, _reader) = duplex(16);
    let binary = writing(LineWriter::new(writer), Format::CloudEventsBinary);
    assert!(matches!(open("stdout:", &binary), Err(SinkError::Option { option: "format", .. })));
}
