//! `groups`: those that are held back, and letting them go.

mod held;

use clap::{Args, Subcommand};
use pillarbox::model::GroupKey;
use pillarbox::port::{GroupAction, GroupChange, GroupState, HeldGroup, Store};
use pillarbox_terminal::failure::{Failure, Outcome};
use pillarbox_terminal::output::counted;
use pillarbox_terminal::output::{Answer, Ink};
use pillarbox_terminal::redact::one_line;
use serde::Serialize;

use super::Session;
use crate::bulk::Consent;
use crate::environment::operator;
use held::Listed;
pub(crate) use held::{Held, table};

/// What to do with groups.
#[derive(Debug, Subcommand)]
pub(crate) enum Groups {
    /// List the groups that are blocked or paused
    #[command(after_help = "Example:\n  pillarbox groups list")]
    List {
        /// Only this group
        group: Option<String>,
    },
    /// Hold a group back until it is resumed
    #[command(after_help = "Example:\n  pillarbox groups pause Account/42 --reason 'under review'")]
    Pause(Pause),
    /// Let a paused group go on
    #[command(after_help = "Example:\n  pillarbox groups resume Account/42")]
    Resume(Release),
    /// Bring the dead head of a blocked group back, in its place, and go on with it
    #[command(
        after_help = "Examples:\n  pillarbox groups unblock Account/42\n  pillarbox groups unblock --all --yes"
    )]
    Unblock(Release),
    /// Leave the dead head of a blocked group dead, and go on with the next event
    #[command(after_help = "Example:\n  pillarbox groups skip Account/42")]
    Skip(Release),
}

/// Which groups to hold back.
#[derive(Debug, Args)]
pub(crate) struct Pause {
    /// The groups: the message group, or TYPE/ID of the aggregate
    #[arg(value_name = "GROUP", required = true)]
    groups: Vec<String>,
    /// Why, for whoever looks
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Only tell what would be changed
    #[arg(long)]
    dry_run: bool,
}

/// Which groups to let go.
#[derive(Debug, Args)]
pub(crate) struct Release {
    /// The groups: the message group, or TYPE/ID of the aggregate
    #[arg(value_name = "GROUP", conflicts_with = "all", required_unless_present = "all")]
    groups: Vec<String>,
    /// All groups that are held back so
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    consent: Consent,
}

impl Groups {
    pub(crate) async fn run(self, session: &Session) -> Outcome {
        let store = session.store().await?;
        match self {
            Self::List { group } => list(session, &*store, group).await,
            Self::Pause(pause) => pause.run(session, &*store).await,
            Self::Resume(release) => release.run(session, &*store, &RESUME).await,
            Self::Unblock(release) => release.run(session, &*store, &UNBLOCK).await,
            Self::Skip(release) => release.run(session, &*store, &SKIP).await,
        }
    }
}

async fn list(session: &Session, store: &dyn Store, group: Option<String>) -> Outcome {
    let held = store.admin().groups().await?;
    let wanted = |held: &&HeldGroup| group.as_deref().is_none_or(|group| held.group.as_str() == group);
    session.output.answer(&Listed(held.iter().filter(wanted).map(Held::from).collect()))
}

impl Pause {
    async fn run(self, session: &Session, store: &dyn Store) -> Outcome {
        let Self { groups, reason, dry_run } = self;
        let mut changed = Vec::new();
        for group in groups {
            if dry_run || change(store, &group, GroupAction::Pause, reason.clone()).await? {
                changed.push(group);
            }
        }
        session.output.answer(&Changed { action: "pause", did: "paused", dry_run, groups: changed })
    }
}

/// A way to let a group go.
struct Way {
    action: GroupAction,
    state: GroupState,
    verb: &'static str,
    did: &'static str,
    held: &'static str,
}

const RESUME: Way = Way {
    action: GroupAction::Resume,
    state: GroupState::Paused,
    verb: "resume",
    did: "resumed",
    held: "paused",
};
const UNBLOCK: Way = Way {
    action: GroupAction::Unblock,
    state: GroupState::Blocked,
    verb: "unblock",
    did: "unblocked",
    held: "blocked",
};
const SKIP: Way = Way {
    action: GroupAction::Skip,
    state: GroupState::Blocked,
    verb: "skip",
    did: "skipped the dead head of",
    held: "blocked",
};

impl Release {
    async fn run(self, session: &Session, store: &dyn Store, way: &Way) -> Outcome {
        let held = store.admin().groups().await?;
        let held = held.iter().filter(|held| held.state == way.state).map(|held| held.group.to_string());
        let held: Vec<String> = held.collect();
        let groups = if self.all { held } else { named(self.groups, &held, way)? };
        if self.all && !self.consent.dry_run && !groups.is_empty() {
            let question = format!("{} {}?", way.verb, counted(groups.len() as u64, "group"));
            self.consent.obtain(session.output, &question)?;
        }
        let mut changed = Vec::new();
        for group in groups {
            if self.consent.dry_run || change(store, &group, way.action, None).await? {
                changed.push(group);
            }
        }
        let (action, did, dry_run) = (way.verb, way.did, self.consent.dry_run);
        session.output.answer(&Changed { action, did, dry_run, groups: changed })
    }
}

fn named(groups: Vec<String>, held: &[String], way: &Way) -> Outcome<Vec<String>> {
    match groups.iter().find(|group| !held.contains(group)) {
        None => Ok(groups),
        Some(group) => Err(Failure::not_found(format!("group {group:?} is not {}", way.held))
            .hint("`pillarbox groups list` shows the groups that are held back")),
    }
}

async fn change(
    store: &dyn Store,
    group: &str,
    action: GroupAction,
    reason: Option<String>,
) -> Outcome<bool> {
    let change = GroupChange { group: GroupKey::new(group), action, reason, by: operator(), now: None };
    Ok(store.admin().change_group(change).await?)
}

#[derive(Debug, Serialize)]
struct Changed {
    action: &'static str,
    #[serde(skip)]
    did: &'static str,
    dry_run: bool,
    groups: Vec<String>,
}

impl Answer for Changed {
    fn for_people(&self, _: Ink) -> String {
        let verb = if self.dry_run { format!("would {}", self.action) } else { self.did.to_owned() };
        match self.groups.as_slice() {
            [] => "nothing to change".to_owned(),
            [group] => format!("{verb} {}", one_line(group)),
            groups => format!("{verb} {}", counted(groups.len() as u64, "group")),
        }
    }
}
