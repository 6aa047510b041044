//! The part of MongoDB's wire protocol that initiates a replica set and checks its state.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

const MESSAGE: i32 = 2_013;
const HEADER: usize = 16;
const LIMIT: Duration = Duration::from_secs(10);
/// Maximum size of an answer. Answers to our commands are a few kilobytes.
const LONGEST: usize = 1 << 20;

/// A value of a document.
#[derive(Debug)]
pub(super) enum Value {
    Number(i32),
    Text(String),
    Document(Vec<(String, Value)>),
    Array(Vec<(String, Value)>),
}

/// Sends a command to a local server. Returns the raw answer, or `None` if there is none.
pub(super) fn ask(port: u16, command: &[(String, Value)]) -> Option<Vec<u8>> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, LIMIT).ok()?;
    stream.set_read_timeout(Some(LIMIT)).ok()?;
    stream.write_all(&message(command)).ok()?;
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let length = usize::try_from(i32::from_le_bytes(length)).ok().filter(|length| *length <= LONGEST)?;
    let mut answer = vec![0; length.checked_sub(4)?];
    stream.read_exact(&mut answer).ok()?;
    Some(answer)
}

/// Whether a boolean field of an answer is true.
pub(super) fn says(answer: &[u8], field: &str) -> bool {
    let wanted = [b"\x08", field.as_bytes(), b"\0\x01"].concat();
    answer.windows(wanted.len()).any(|bytes| bytes == wanted)
}

fn message(command: &[(String, Value)]) -> Vec<u8> {
    // The flags, and one section of the kind "document".
    let body = [&0_i32.to_le_bytes(), &[0][..], &document(command)].concat();
    let length = (HEADER + body.len()) as i32;
    let header = [length, 1, 0, MESSAGE].map(i32::to_le_bytes).concat();
    [header, body].concat()
}

fn document(fields: &[(String, Value)]) -> Vec<u8> {
    let elements: Vec<u8> = fields.iter().flat_map(|(name, value)| element(name, value)).collect();
    let length = (elements.len() + 5) as i32;
    [&length.to_le_bytes(), elements.as_slice(), &[0]].concat()
}

fn element(name: &str, value: &Value) -> Vec<u8> {
    let (kind, bytes) = match value {
        Value::Number(number) => (0x10, number.to_le_bytes().to_vec()),
        Value::Text(text) => {
            let length = (text.len() + 1) as i32;
            (0x02, [&length.to_le_bytes(), text.as_bytes(), &[0]].concat())
        }
        Value::Document(fields) => (0x03, document(fields)),
        Value::Array(fields) => (0x04, document(fields)),
    };
    [&[kind], name.as_bytes(), &[0], &bytes].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_a_message_of_one_document() {
        let sent = message(&[("hello".into(), Value::Number(1))]);
        let header = [37, 1, 0, MESSAGE].map(i32::to_le_bytes).concat();
        let body = b"\0\0\0\0\0\x10\0\0\0\x10hello\0\x01\0\0\0\0";
        assert_eq!(sent, [header, body.to_vec()].concat());
    }

    #[test]
    fn only_a_field_that_is_true_says_so() {
        let answer = b"\x08primary\0\x01\x08secondary\0\0";
        assert!(says(answer, "primary"));
        assert!(!says(answer, "secondary") && !says(answer, "mary"));
    }
}
