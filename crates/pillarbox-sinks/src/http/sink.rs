//! Posts runs of events, one request per run, and derives a verdict for each event.

use http::StatusCode;
use pillarbox::port::{Delivery, Handed, Sink, Verdict};
use reqwest::Url;

use super::element::{Element, Maker};
use super::items::{self, Said};
use super::request;
use super::words::UnknownWords;
use crate::error::SinkError;
use crate::fault::Fault;
use crate::options::{Answers, Compression, SinkOptions};
use crate::transport::{Blame, Body, Client, EndpointResponse, Post, Schemes, Target};

/// Maximum bytes of a response that are read: a base, and an amount per event in addition.
const ANSWER_MAX: usize = 64 * 1024;
const ANSWER_MAX_PER_EVENT: usize = 1_024;

/// Posts batches of events as JSON arrays.
///
/// A batch is sent in one request. If the paths of its events differ, each run of events with the same path
/// gets its own request, in order and up to the first that fails.
pub struct BatchSink {
    client: Client,
    maker: Maker,
    answers: Answers,
    unknown: UnknownWords,
    compression: Compression,
}

impl BatchSink {
    /// Opens the sink of an API. It connects with the first delivery.
    pub fn open(url: &str, options: &SinkOptions) -> Result<Self, SinkError> {
        let target = Target::parse(url, Schemes::Any)?;
        Ok(Self {
            client: Client::new(target.url(), options, None)?,
            maker: Maker::new(target, options)?,
            answers: options.answers,
            unknown: UnknownWords::default(),
            compression: options.compression,
        })
    }

    /// Sends the events before the first one that can't be encoded. Nothing is sent past such an event or
    /// past a refused one: if that event goes dead and blocks its group, the later events must not have been
    /// delivered.
    async fn send(&self, batch: &[Delivery]) -> Vec<Verdict> {
        let mut verdicts = Vec::with_capacity(batch.len());
        let mut elements = Vec::with_capacity(batch.len());
        let mut unsendable = None;
        for delivery in batch {
            match self.maker.element(delivery) {
                Ok(element) => elements.push(element),
                Err(error) => {
                    unsendable = Some(Verdict::Rejected { error });
                    break;
                }
            }
        }
        let all_accepted =
            |verdicts: &[Verdict]| verdicts.iter().all(|verdict| *verdict == Verdict::Accepted);
        for run in elements.chunk_by(|one, next| one.url == next.url) {
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

    /// Posts a run and returns a verdict for each of its events.
    async fn post(&self, run: &[Element<'_>]) -> Vec<Verdict> {
        let unavailable = |fault: Fault| vec![fault.verdict(); run.len()];
        let Some(first) = run.first() else { return Vec::new() };
        let body = match request::body(run, self.compression).await {
            Ok(body) => body,
            Err(error) => return unavailable(error.into()),
        };
        let post = Post {
            url: Url::clone(&first.url),
            headers: request::headers(run, &self.maker, self.compression),
            body,
            answer_max: ANSWER_MAX + run.len() * ANSWER_MAX_PER_EVENT,
        };
        match self.client.post(&post).await {
            Ok(answer) => self.judge(run, &answer),
            Err(fault) => unavailable(fault),
        }
    }

    fn judge(&self, run: &[Element<'_>], answer: &EndpointResponse) -> Vec<Verdict> {
        let lone = run.len() == 1;
        match Blame::of(answer.status, answer.after) {
            Blame::None => self.judge_good(run, answer),
            Blame::Endpoint => vec![answer.unavailable(answer.error()); run.len()],
            Blame::Throttled => {
                vec![Verdict::Throttled { error: answer.error(), after: answer.after }; run.len()]
            }
            Blame::Items if lone => vec![Verdict::Failed { error: answer.error(), after: answer.after }],
            Blame::TooLarge if lone => vec![Verdict::Rejected { error: answer.error() }],
            // On `Refused` the engine sends the events again in smaller batches, from the first one.
            Blame::Items | Blame::TooLarge => {
                let mut verdicts = vec![Verdict::Skipped; run.len()];
                verdicts[0] = Verdict::Refused { error: answer.error() };
                verdicts
            }
        }
    }

    /// The verdicts of a response with a 2xx status, whose body may still report failed events.
    fn judge_good(&self, run: &[Element<'_>], answer: &EndpointResponse) -> Vec<Verdict> {
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
