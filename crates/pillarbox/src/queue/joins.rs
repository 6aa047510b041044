//! Joins: when all messages of a fan-out have ended, the store enqueues one more message.

use super::{JoinError, MessageId, Queue};
use crate::model::{
    Continuation, EVENT_TYPE_MAX, EventId, FailedSteps, GROUPING_KEY_MAX, Headers, Invalid, JOIN_STEPS_MAX,
    JoinId, JoinRecord, JoinStatus, JoinWait, Limits, StepState, limits,
};
use crate::port::{
    BlockingWriteOn, ErrorKind, JoinAction, JoinChange, JoinChanged, JoinShown, Joins, ListJoins, Store,
    StoreError, WriteOn,
};

/// Starts, changes and lists the joins of a queue.
pub struct QueueJoins<'a, S> {
    queue: &'a Queue<S>,
}

/// Describes a join for [`QueueJoins::start`].
#[derive(Debug, Clone)]
#[must_use = "a join is not there before it is started"]
pub struct JoinBuilder {
    id: Option<JoinId>,
    grouping_key: Option<String>,
    expected: u32,
    metadata: Option<String>,
}

impl JoinBuilder {
    /// A join of `expected` steps. A step is one message.
    pub fn of(expected: u32) -> Self {
        Self { id: None, grouping_key: None, expected, metadata: None }
    }

    setters! {
        /// Sets the id. Starting a join whose id exists already changes nothing. Default: random.
        id(id: JoinId) => id = Some(id);
        /// Sets a key by which joins can be listed, such as a customer id.
        grouping_key(key: impl Into<String>) => grouping_key = Some(key.into()).filter(|key| !key.is_empty());
        /// Sets free text that is stored with the join.
        metadata(metadata: impl Into<String>) => metadata = Some(metadata.into());
    }

    fn change(self, limits: &Limits) -> Result<JoinChange, Invalid> {
        if !(1..=JOIN_STEPS_MAX).contains(&self.expected) {
            return Err(Invalid::range("expected steps", self.expected, format!("1 to {JOIN_STEPS_MAX}")));
        }
        if let Some(key) = &self.grouping_key {
            limits::name("grouping key", key, GROUPING_KEY_MAX)?;
        }
        if let Some(metadata) = &self.metadata {
            payload("metadata", metadata, limits)?;
        }
        let action = JoinAction::Start {
            grouping_key: self.grouping_key,
            expected: self.expected,
            metadata: self.metadata,
        };
        Ok(JoinChange { join: self.id.unwrap_or_else(JoinId::random), action, now: None })
    }
}

/// The continuations of a join: the messages to enqueue when it completes or fails.
#[derive(Debug, Clone, Default)]
pub struct Waiting {
    failed_steps: FailedSteps,
    on_complete: Option<Continuation>,
    on_fail: Option<Continuation>,
}

impl Waiting {
    /// No continuations yet; a failed step fails the join.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Enqueues this message when the join completes.
    #[must_use]
    pub fn on_complete(mut self, topic: impl Into<String>, payload: impl Into<String>) -> Self {
        self.on_complete = Some(Continuation { topic: topic.into(), payload: payload.into() });
        self
    }

    /// Enqueues this message when the join fails.
    #[must_use]
    pub fn on_fail(mut self, topic: impl Into<String>, payload: impl Into<String>) -> Self {
        self.on_fail = Some(Continuation { topic: topic.into(), payload: payload.into() });
        self
    }

    /// Sets whether failed steps fail the join. Default: they do.
    #[must_use]
    pub fn failed_steps(mut self, failed_steps: FailedSteps) -> Self {
        self.failed_steps = failed_steps;
        self
    }

    fn action(self, limits: &Limits) -> Result<JoinAction, Invalid> {
        if self.on_complete.is_none() && self.on_fail.is_none() {
            let hint = "say what is enqueued on completion, on failure, or both";
            return Err(Invalid::Missing { field: "continuation", hint });
        }
        for next in [&self.on_complete, &self.on_fail].into_iter().flatten() {
            limits::name("topic", &next.topic, EVENT_TYPE_MAX)?;
            payload("payload", &next.payload, limits)?;
        }
        let mut headers = Headers::default();
        if let Some(trace) = crate::events::trace::current() {
            trace.write_to(&mut headers);
        }
        Ok(JoinAction::Wait(JoinWait {
            failed_steps: self.failed_steps,
            on_complete: self.on_complete,
            on_fail: self.on_fail,
            message: EventId::ulid(),
            headers: headers.to_stored(),
        }))
    }
}

/// Checks the length and characters of a text that is stored unchanged.
fn payload(field: &'static str, text: &str, limits: &Limits) -> Result<(), Invalid> {
    if text.len() > limits.payload {
        return Err(Invalid::TooLong { field, len: text.len(), max: limits.payload, unit: "bytes" });
    }
    limits::text(field, text, limits)
}

fn attach(join: &JoinId, messages: &[MessageId]) -> JoinChange {
    let messages = messages.iter().map(|message| message.0.clone()).collect();
    JoinChange { join: join.clone(), action: JoinAction::Attach { messages }, now: None }
}

/// Converts the store's answer: true if the join was changed, false if the change had been made before.
fn judged(request: &JoinChange, changed: JoinChanged) -> Result<bool, JoinError> {
    let join = || request.join.clone();
    Err(match changed {
        JoinChanged::Changed => return Ok(true),
        JoinChanged::Unchanged => return Ok(false),
        JoinChanged::NoSuchJoin => JoinError::NoSuchJoin(join()),
        JoinChanged::Ended(status) => JoinError::Ended { join: join(), status },
        JoinChanged::Full { expected } => JoinError::Full { join: join(), expected },
        JoinChanged::NoSuchMessage(message) => JoinError::NoSuchMessage(MessageId(message)),
        JoinChanged::AlreadyWaiting => JoinError::AlreadyWaiting(join()),
        JoinChanged::NotAMember => {
            let message = match &request.action {
                JoinAction::Report { message, .. } => message.clone(),
                _ => EventId::from_row(""),
            };
            JoinError::NotAMember { join: join(), message: MessageId(message) }
        }
    })
}

impl<'a, S: Store> QueueJoins<'a, S> {
    pub(super) fn new(queue: &'a Queue<S>) -> Self {
        Self { queue }
    }

    fn limits(&self) -> Limits {
        self.queue.limits()
    }

    fn wait_change(&self, join: &JoinId, waiting: Waiting) -> Result<JoinChange, Invalid> {
        Ok(JoinChange { join: join.clone(), action: waiting.action(&self.limits())?, now: None })
    }

    fn port(&self) -> Result<&'a dyn Joins, JoinError> {
        self.queue.store().joins().ok_or_else(|| {
            let detail = "joins need transactions, which this database does not have here";
            StoreError::new(ErrorKind::Unsupported, "joins", self.queue.name(), detail).into()
        })
    }

    async fn change(&self, request: JoinChange) -> Result<bool, JoinError> {
        self.queue.ready().await?;
        let changed = self.port()?.change_join(request.clone()).await?;
        self.queue.notify();
        judged(&request, changed)
    }

    async fn change_on<Tx: ?Sized>(&self, tx: &mut Tx, request: JoinChange) -> Result<bool, JoinError>
    where
        S: WriteOn<Tx>,
    {
        self.port()?;
        let changed = self.queue.store().change_join_on(tx, request.clone()).await?;
        judged(&request, changed)
    }

    fn change_on_blocking<Tx: ?Sized>(&self, tx: &Tx, request: &JoinChange) -> Result<bool, JoinError>
    where
        S: BlockingWriteOn<Tx>,
    {
        self.port()?;
        let changed = self.queue.store().change_join_blocking(tx, request)?;
        judged(request, changed)
    }

    /// Starts a join and returns its id.
    pub async fn start(&self, join: JoinBuilder) -> Result<JoinId, JoinError> {
        let request = join.change(&self.limits())?;
        let id = request.join.clone();
        self.change(request).await.map(|_| id)
    }

    /// Starts a join on a transaction that the caller opened.
    pub async fn start_on<Tx: ?Sized>(&self, tx: &mut Tx, join: JoinBuilder) -> Result<JoinId, JoinError>
    where
        S: WriteOn<Tx>,
    {
        let request = join.change(&self.limits())?;
        let id = request.join.clone();
        self.change_on(tx, request).await.map(|_| id)
    }

    /// Starts a join on a blocking driver's transaction that the caller opened.
    pub fn start_on_blocking<Tx: ?Sized>(&self, tx: &Tx, join: JoinBuilder) -> Result<JoinId, JoinError>
    where
        S: BlockingWriteOn<Tx>,
    {
        let request = join.change(&self.limits())?;
        let id = request.join.clone();
        self.change_on_blocking(tx, &request).map(|_| id)
    }

    /// Attaches messages as steps of a join, all or none. Returns false if all were attached before.
    ///
    /// A message that has already ended counts immediately.
    pub async fn attach(&self, join: &JoinId, messages: &[MessageId]) -> Result<bool, JoinError> {
        self.change(attach(join, messages)).await
    }

    /// Attaches messages on a transaction that the caller opened, such as the one that enqueues them.
    pub async fn attach_on<Tx: ?Sized>(
        &self,
        tx: &mut Tx,
        join: &JoinId,
        messages: &[MessageId],
    ) -> Result<bool, JoinError>
    where
        S: WriteOn<Tx>,
    {
        self.change_on(tx, attach(join, messages)).await
    }

    /// Attaches messages on a blocking driver's transaction that the caller opened.
    pub fn attach_on_blocking<Tx: ?Sized>(
        &self,
        tx: &Tx,
        join: &JoinId,
        messages: &[MessageId],
    ) -> Result<bool, JoinError>
    where
        S: BlockingWriteOn<Tx>,
    {
        self.change_on_blocking(tx, &attach(join, messages))
    }

    /// Sets the continuations of a join, which can be done only once.
    ///
    /// If all steps have ended already, the store enqueues the continuation immediately.
    pub async fn wait(&self, join: &JoinId, waiting: Waiting) -> Result<(), JoinError> {
        self.change(self.wait_change(join, waiting)?).await.map(drop)
    }

    /// Sets the continuations on a transaction that the caller opened.
    pub async fn wait_on<Tx: ?Sized>(
        &self,
        tx: &mut Tx,
        join: &JoinId,
        waiting: Waiting,
    ) -> Result<(), JoinError>
    where
        S: WriteOn<Tx>,
    {
        self.change_on(tx, self.wait_change(join, waiting)?).await.map(drop)
    }

    /// Sets the continuations on a blocking driver's transaction that the caller opened.
    pub fn wait_on_blocking<Tx: ?Sized>(
        &self,
        tx: &Tx,
        join: &JoinId,
        waiting: Waiting,
    ) -> Result<(), JoinError>
    where
        S: BlockingWriteOn<Tx>,
    {
        self.change_on_blocking(tx, &self.wait_change(join, waiting)?).map(drop)
    }

    /// Reports manually that a step has succeeded. Returns false if the step had ended before.
    ///
    /// Messages that the queue settles report their steps automatically.
    pub async fn report_completed(&self, join: &JoinId, message: &MessageId) -> Result<bool, JoinError> {
        self.report(join, message, StepState::Completed).await
    }

    /// Reports manually that a step has failed. Returns false if the step had ended before.
    pub async fn report_failed(&self, join: &JoinId, message: &MessageId) -> Result<bool, JoinError> {
        self.report(join, message, StepState::Failed).await
    }

    async fn report(&self, join: &JoinId, message: &MessageId, state: StepState) -> Result<bool, JoinError> {
        let action = JoinAction::Report { message: message.0.clone(), state };
        self.change(JoinChange { join: join.clone(), action, now: None }).await
    }

    /// Cancels a join, so that it enqueues no continuation. Returns false if it was cancelled before.
    pub async fn cancel(&self, join: &JoinId, by: impl Into<String>) -> Result<bool, JoinError> {
        let action = JoinAction::Cancel { by: by.into() };
        self.change(JoinChange { join: join.clone(), action, now: None }).await
    }

    /// Returns a join with at most `members` of its steps.
    pub async fn show(&self, join: &JoinId, members: usize) -> Result<JoinShown, JoinError> {
        let shown = self.port()?.show_join(join.clone(), members).await?;
        shown.ok_or_else(|| JoinError::NoSuchJoin(join.clone()))
    }

    /// Lists at most `limit` joins, newest first, optionally by grouping key and status.
    pub async fn list(
        &self,
        grouping_key: Option<&str>,
        status: Option<JoinStatus>,
        limit: usize,
    ) -> Result<Vec<JoinRecord>, JoinError> {
        let request = ListJoins { grouping_key: grouping_key.map(str::to_owned), status, limit };
        Ok(self.port()?.list_joins(request).await?)
    }
}
