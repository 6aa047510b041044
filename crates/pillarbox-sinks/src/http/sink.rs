//! The sink itself: runs of events, one request each, and a verdict for each event.

use http::StatusCode;
use pillarbox::port::{Delivery, Handed, Sink, Verdict};
use reqwest::Url;

use super::items::{self, Said};
use super::part::{Maker, Part};
use super::request;
use super::words::UnknownWords;
use crate::error::SinkError;
use crate::fault::Fault;
use crate::options::{Answers, Compression, SinkOptions};
use crate::transport::{Answer, Blame, Body, Client, Post};

/// How much of an answer is read, in bytes, and for each event besides.
const ANSWER_MAX: usize = 64 * 1024;
const ANSWER_MAX_PER_EVENT: usize = 1_024;

/// Posts batches of events as JSON arrays.
///
/// The events of a batch go in one request; where their paths differ, in as many as there are runs of one path, in order
/// and up to the first that fails.
pub struct BatchSink {
    client: Client,
    maker: Maker,
    answers: Answers,
    unknown: UnknownWords,
    compression: Compression,
}

impl BatchSink {
    /// A sink for the API at this URL.
    pub fn open(url: &str, options: &SinkOptions) -> Result<Self, SinkError> {
        Ok(Self {
            maker: Maker::new(url, options)?,
            client: Client::new(options, None)?,
            answers: options.answers,
            unknown: UnknownWords::default(),
            compression: options.compression,
        })
    }

    /// Sends what stands before the first event that can't be sent. Such an event and a refused one are not overtaken: under a policy that
    /// blocks the group behind it, what follows would have been delivered too early.
    async fn send(&self, batch: &[Delivery]) -> Vec<Verdict> {
        let mut verdicts = Vec::with_capacity(batch.len());
        let mut parts = Vec::with_capacity(batch.len());
        let mut unsendable = None;
        for delivery in batch {
            match self.maker.part(delivery) {
                Ok(part) => parts.push(part),
                Err(error) => {
                    unsendable = Some(Verdict::Rejected { error });
                    break;
                }
            }
        }
        let all_accepted =
            |verdicts: &[Verdict]| verdicts.iter().all(|verdict| *verdict == Verdict::Accepted);
        for run in parts.chunk_by(|one, next| one.url == next.url) {
            verdicts.extend(self.post(run).await);
            if !all_accepted(&verdicts) {
                break;
            }
        }
        if all_accepted(&verdicts) {
            verdicts.extend(unsendable);
        }
        verdicts.resize(batch.len(), Verdict::Skipped);
        verdicts
    }

    /// Sends a run, and gives a verdict for each of its events.
    async fn post(&self, run: &[Part<'_>]) -> Vec<Verdict> {
        let unavailable = |fault: Fault| vec![fault.verdict(); run.len()];
        let Some(first) = run.first() else { return Vec::new() };
        let body = match request::body(run, self.compression).await {
            Ok(body) => body,
            Err(error) => return unavailable(error.into()),
        };
        let post = Post {
            url: Url::clone(&first.url),
            headers: request::headers(run, self.maker.content_type(), self.compression),
            body,
            answer_max: ANSWER_MAX + run.len() * ANSWER_MAX_PER_EVENT,
        };
        match self.client.post(&post).await {
            Ok(answer) => self.judge(run, &answer),
            Err(fault) => unavailable(fault),
        }
    }

    fn judge(&self, run: &[Part<'_>], answer: &Answer) -> Vec<Verdict> {
        let lone = run.len() == 1;
        match Blame::of(answer.status, answer.after) {
            Blame::None => self.judge_good(run, answer),
            Blame::Endpoint => vec![answer.unavailable(answer.error()); run.len()],
            Blame::Throttled => {
                vec![Verdict::Throttled { error: answer.error(), after: answer.after }; run.len()]
            }
            Blame::Items if lone => vec![Verdict::Failed { error: answer.error(), after: answer.after }],
            Blame::TooLarge if lone => vec![Verdict::Rejected { error: answer.error() }],
            // The engine sends them again in parts, from the first on.
            Blame::Items | Blame::TooLarge => {
                let mut verdicts = vec![Verdict::Skipped; run.len()];
                verdicts[0] = Verdict::Refused { error: answer.error() };
                verdicts
            }
        }
    }

    /// An answer that says yes, unless its body says otherwise of some.
    fn judge_good(&self, run: &[Part<'_>], answer: &Answer) -> Vec<Verdict> {
        let unclear = |why: &str| {
            let error = format!("the endpoint answered {}, but {why}", answer.status.as_u16());
            vec![answer.unavailable(error); run.len()]
        };
        let accepted = || vec![Verdict::Accepted; run.len()];
        if self.answers == Answers::ByStatus {
            return accepted();
        }
        let said = match &answer.body {
            Body::Whole(bytes) => items::read(bytes, run, answer, &self.unknown),
            Body::Broken(_) => return unclear("its body broke off or did not end in time"),
            Body::Cut(bytes) if items::may_be_items(bytes) => {
                return unclear("its body is too long to tell which events it took");
            }
            Body::Cut(_) => Said::Nothing,
        };
        match said {
            Said::Each(verdicts) => verdicts,
            Said::Mismatch(why) => unclear(&why),
            Said::Nothing if answer.status == StatusCode::MULTI_STATUS => {
                unclear("its body does not tell which events it took")
            }
            Said::Nothing => accepted(),
        }
    }
}

impl Sink for BatchSink {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> Handed<'a> {
        Box::pin(self.send(batch))
    }
}
