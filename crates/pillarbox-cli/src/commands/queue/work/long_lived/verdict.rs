//! Verdicts as lines of JSON.

use std::borrow::Cow;
use std::time::Duration;

use pillarbox::{Failure, redact};
use serde::Deserialize;

use crate::parse;

/// A verdict on a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WorkerVerdict {
    Ack,
    Abandon {
        error: String,
        delay: Option<Duration>,
    },
    Fail {
        error: String,
    },
    /// The verdict of a known message can't be read.
    Unreadable(String),
}

impl WorkerVerdict {
    pub(super) fn into_result(self) -> Result<(), Failure> {
        match self {
            Self::Ack => Ok(()),
            Self::Abandon { error, delay: None } => Err(Failure::retry(error)),
            Self::Abandon { error, delay: Some(delay) } => Err(Failure::retry_after(error, delay)),
            Self::Fail { error } => Err(Failure::permanent(error)),
            Self::Unreadable(why) => Err(Failure::retry(format!("the verdict can't be read: {why}"))),
        }
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Ack,
    Abandon,
    Fail,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(borrow)]
    item: Cow<'a, str>,
    verdict: Word,
    #[serde(borrow, default)]
    error: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    delay: Option<Cow<'a, str>>,
}

/// Only the item of a line whose other fields can't be read.
#[derive(Debug, Deserialize)]
struct ItemOnly<'a> {
    #[serde(borrow)]
    item: Cow<'a, str>,
}

/// Reads a line: the item and the verdict on it. `None` if the line names no item.
pub(super) fn read(line: &[u8]) -> Option<(Cow<'_, str>, WorkerVerdict)> {
    match serde_json::from_slice::<Line<'_>>(line) {
        Ok(line) => {
            let verdict = line.verdict();
            Some((line.item, verdict))
        }
        Err(error) => {
            let ItemOnly { item } = serde_json::from_slice(line).ok()?;
            Some((item, WorkerVerdict::Unreadable(error.to_string())))
        }
    }
}

impl Line<'_> {
    fn verdict(&self) -> WorkerVerdict {
        let error = |default: &str| redact::text(self.error.as_deref().unwrap_or(default));
        match (self.verdict, self.delay.as_deref()) {
            (Word::Ack, None) if self.error.is_none() => WorkerVerdict::Ack,
            (Word::Ack, _) => WorkerVerdict::Unreadable("`ack` takes neither `error` nor `delay`".to_owned()),
            (Word::Abandon, None) => WorkerVerdict::Abandon { error: error("abandoned"), delay: None },
            (Word::Abandon, Some(delay)) => match parse::duration(delay) {
                Ok(delay) => WorkerVerdict::Abandon { error: error("abandoned"), delay: Some(delay) },
                Err(why) => WorkerVerdict::Unreadable(format!("`delay`: {why}")),
            },
            (Word::Fail, None) => WorkerVerdict::Fail { error: error("failed") },
            (Word::Fail, Some(_)) => WorkerVerdict::Unreadable("`fail` takes no `delay`".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(line: &str) -> Option<WorkerVerdict> {
        read(line.as_bytes()).map(|(item, verdict)| {
            assert_eq!(item, "a@1");
            verdict
        })
    }

    /// PBX-172
    #[test]
    fn verdicts_are_read() {
        assert_eq!(verdict(r#"{"item":"a@1","verdict":"ack"}"#), Some(WorkerVerdict::Ack));
        assert_eq!(
            verdict(r#" {"verdict":"abandon","item":"a@1","error":"no \"answer\"","delay":"5m"} "#),
            Some(WorkerVerdict::Abandon {
                error: "no \"answer\"".to_owned(),
                delay: Some(Duration::from_secs(300))
            })
        );
        assert_eq!(
            verdict(r#"{"item":"a@1","verdict":"fail"}"#),
            Some(WorkerVerdict::Fail { error: "failed".to_owned() })
        );
    }

    /// PBX-172
    #[test]
    fn what_is_wrong_with_a_verdict_is_told_to_its_message() {
        for line in [
            r#"{"item":"a@1"}"#,
            r#"{"item":"a@1","verdict":"done"}"#,
            r#"{"item":"a@1","verdict":"abandon","dealy":"5s"}"#,
            r#"{"item":"a@1","verdict":"abandon","delay":"soon"}"#,
            r#"{"item":"a@1","verdict":"ack","error":"but"}"#,
            r#"{"item":"a@1","verdict":"fail","delay":"5s"}"#,
        ] {
            assert!(matches!(verdict(line), Some(WorkerVerdict::Unreadable(_))), "{line}");
        }
        for line in ["", "done", "{}", "[]", r#"{"item":7,"verdict":"ack"}"#, "{\"item\":\"a@1\"", "\u{fffd}"]
        {
            assert_eq!(verdict(line), None, "{line}");
        }
    }
}
