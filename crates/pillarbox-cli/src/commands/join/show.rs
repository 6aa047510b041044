//! Joins for display: a list, or one join with its members.

use jiff::Timestamp;
use pillarbox::model::{Continuation, FailedSteps, JoinMember, JoinRecord, JoinStatus, JoinWait, StepState};
use pillarbox::port::JoinShown;
use pillarbox_terminal::output::{Ink, Printable, TableColumn, TextTable, ago, fields};
use pillarbox_terminal::printable::lines;
use serde::Serialize;

/// A join for display.
#[derive(Debug, Serialize)]
struct View {
    id: String,
    status: JoinStatus,
    grouping_key: Option<String>,
    expected: u32,
    attached: u32,
    completed: u32,
    failed: u32,
    metadata: Option<String>,
    /// The continuation, if `join wait` has set one.
    wait: Option<Following>,
    /// The message that was enqueued when the join ended.
    fired: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

#[derive(Debug, Serialize)]
struct Following {
    failed_steps: FailedSteps,
    on_complete: Option<Next>,
    on_fail: Option<Next>,
}

#[derive(Debug, Serialize)]
struct Next {
    topic: String,
    /// The payload of the continuation; lists leave it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
}

/// Whether payloads are included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Payloads {
    Shown,
    Hidden,
}

impl View {
    fn new(join: &JoinRecord, payloads: Payloads) -> Self {
        Self {
            id: join.id.to_string(),
            status: join.status,
            grouping_key: join.grouping_key.clone(),
            expected: join.expected,
            attached: join.attached,
            completed: join.completed,
            failed: join.failed,
            metadata: join.metadata.clone(),
            wait: join.wait.as_ref().map(|wait| Following::new(wait, payloads)),
            fired: join.fired.as_ref().map(ToString::to_string),
            created_at: join.created_at,
            updated_at: join.updated_at,
        }
    }

    fn known(&self) -> Vec<(&'static str, String)> {
        let now = Timestamp::now();
        let time = |at: Timestamp| format!("{at} ({})", ago(at, now));
        let next = |next: fn(&Following) -> &Option<Next>| {
            let next = next(self.wait.as_ref()?).as_ref()?;
            Some(format!("{}  {}", next.topic, next.payload.as_deref().unwrap_or_default()))
        };
        let ignores = self.wait.as_ref().is_some_and(|wait| wait.failed_steps == FailedSteps::Ignore);
        let all = [
            ("id", Some(self.id.clone())),
            ("status", Some(self.status.as_str().to_owned())),
            ("grouping key", self.grouping_key.clone()),
            ("steps", Some(self.steps())),
            ("attached", Some(self.attached.to_string())),
            ("on complete", next(|wait| &wait.on_complete)),
            ("on fail", next(|wait| &wait.on_fail)),
            ("failed steps", ignores.then(|| "ignored".to_owned())),
            ("enqueued", self.fired.clone()),
            ("metadata", self.metadata.clone()),
            ("started", Some(time(self.created_at))),
            ("changed", Some(time(self.updated_at))),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, lines(&value?)))).collect()
    }

    fn steps(&self) -> String {
        let Self { completed, failed, expected, .. } = self;
        format!("{completed} completed, {failed} failed of {expected}")
    }
}

impl Following {
    fn new(wait: &JoinWait, payloads: Payloads) -> Self {
        let next = |next: &Continuation| Next {
            topic: next.topic.clone(),
            payload: (payloads == Payloads::Shown).then(|| next.payload.clone()),
        };
        Self {
            failed_steps: wait.failed_steps,
            on_complete: wait.on_complete.as_ref().map(next),
            on_fail: wait.on_fail.as_ref().map(next),
        }
    }
}

/// A join with its members.
#[derive(Debug, Serialize)]
pub(super) struct Shown {
    #[serde(flatten)]
    join: View,
    members: Vec<Member>,
}

#[derive(Debug, Serialize)]
struct Member {
    message: String,
    state: StepState,
    attached_at: Timestamp,
}

impl From<&JoinMember> for Member {
    fn from(member: &JoinMember) -> Self {
        let JoinMember { message, state, attached_at } = member;
        Self { message: message.to_string(), state: *state, attached_at: *attached_at }
    }
}

impl From<&JoinShown> for Shown {
    fn from(shown: &JoinShown) -> Self {
        let members = shown.members.iter().map(Member::from).collect();
        Self { join: View::new(&shown.join, Payloads::Shown), members }
    }
}

impl Printable for Shown {
    fn for_people(&self, ink: Ink) -> String {
        let mut text = fields(ink, &self.join.known());
        if !self.members.is_empty() {
            let columns =
                [TableColumn::Whole("MESSAGE"), TableColumn::Whole("STATE"), TableColumn::Whole("ATTACHED")];
            let mut table = TextTable::new(ink, &columns);
            let now = Timestamp::now();
            for member in &self.members {
                let attached = ago(member.attached_at, now);
                table.row([member.message.as_str(), member.state.as_str(), &attached]);
            }
            text = format!("{text}\n\n{}", table.render());
        }
        text
    }
}

/// A list of joins.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct Listed(Vec<View>);

impl From<&[JoinRecord]> for Listed {
    fn from(joins: &[JoinRecord]) -> Self {
        Self(joins.iter().map(|join| View::new(join, Payloads::Hidden)).collect())
    }
}

impl Printable for Listed {
    fn for_people(&self, ink: Ink) -> String {
        use TableColumn::{Whole, Wrapped};
        if self.0.is_empty() {
            return "no joins".to_owned();
        }
        let columns =
            [Whole("ID"), Whole("STATUS"), Wrapped("STEPS"), Wrapped("GROUPING KEY"), Whole("STARTED")];
        let mut table = TextTable::new(ink, &columns);
        let now = Timestamp::now();
        for join in &self.0 {
            let key = join.grouping_key.clone().unwrap_or("-".to_owned());
            let (status, started) = (join.status.as_str().to_owned(), ago(join.created_at, now));
            table.row([join.id.clone(), status, join.steps(), key, started]);
        }
        table.render()
    }
}
