//! A sink that takes its time over each batch, answers by a script, and notes when everything began.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::port::{Delivery, Handed, Sink, Verdict};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// What is known of one request.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) ids: Vec<String>,
    /// When it came, from the start of the test.
    pub(crate) at: Duration,
    /// What was said of its first event; none yet.
    pub(crate) said: Option<Verdict>,
}

type Script = Box<dyn FnMut(&[String], Duration) -> (Duration, Verdict) + Send>;

/// Answers a whole batch with one verdict, after a time.
pub(crate) struct Timed {
    script: Mutex<Script>,
    start: Instant,
    requests: watch::Sender<Vec<Request>>,
}

impl Timed {
    /// The script is asked when a request comes, with its ids and the time since the start.
    pub(crate) fn new(
        script: impl FnMut(&[String], Duration) -> (Duration, Verdict) + Send + 'static,
    ) -> Arc<Self> {
        let requests = watch::Sender::default();
        Arc::new(Self { script: Mutex::new(Box::new(script)), start: Instant::now(), requests })
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.borrow().clone()
    }

    /// Events that were accepted, in order.
    pub(crate) fn accepted(&self) -> Vec<String> {
        let requests = self.requests();
        let taken = requests.into_iter().filter(|request| request.said == Some(Verdict::Accepted));
        taken.flat_map(|request| request.ids).collect()
    }

    /// Waits until this holds of what was sent.
    pub(crate) async fn until(&self, holds: impl Fn(&[Request]) -> bool) {
        let mut requests = self.requests.subscribe();
        let held = requests.wait_for(|requests| holds(requests));
        timeout(Duration::from_secs(6 * 3_600), held).await.expect("it comes about").unwrap();
    }

    async fn answer(&self, batch: &[Delivery]) -> Vec<Verdict> {
        let ids: Vec<String> = batch.iter().map(|one| one.event.id().to_string()).collect();
        let at = self.start.elapsed();
        let (latency, verdict) = (self.script.lock().unwrap())(&ids, at);
        let mut place = 0;
        self.requests.send_modify(|requests| {
            place = requests.len();
            requests.push(Request { ids, at, said: None });
        });
        timeout(latency, std::future::pending::<()>()).await.unwrap_err();
        self.requests.send_modify(|requests| requests[place].said = Some(verdict.clone()));
        vec![verdict; batch.len()]
    }
}

impl Sink for Timed {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> Handed<'a> {
        Box::pin(self.answer(batch))
    }
}
