//! `groups`: lists held groups, and pauses, resumes, unblocks and skips.

mod held;

use clap::{Args, Subcommand};
use pillarbox::model::GroupKey;
use pillarbox::port::{GroupAction, GroupChange, GroupState, HeldGroups, Table};
use pillarbox_terminal::error::{CommandError, CommandResult};
use pillarbox_terminal::output::counted;
use pillarbox_terminal::output::{Ink, Printable};
use pillarbox_terminal::printable::one_line;
use serde::Serialize;

use super::Session;
use crate::bulk::Consent;
use crate::environment::operator;
pub(crate) use held::{HeldGroupView, table};
use held::{Listed, Listing};

/// Subcommands of `groups`.
#[derive(Debug, Subcommand)]
pub(crate) enum Groups {
    /// List the groups that are blocked or paused
    #[command(after_help = "Example:\n  pillarbox groups list")]
    List {
        /// Only this group
        group: Option<String>,
    },
    /// Pause groups until they are resumed
    #[command(after_help = "Example:\n  pillarbox groups pause Account/42 --reason 'under review'")]
    Pause(Pause),
    /// Resume paused groups
    #[command(after_help = "Example:\n  pillarbox groups resume Account/42")]
    Resume(Release),
    /// Replay the dead head of a blocked group in its place and continue
    #[command(
        after_help = "Examples:\n  pillarbox groups unblock Account/42\n  pillarbox groups unblock --all --yes"
    )]
    Unblock(Release),
    /// Leave the dead head of a blocked group dead and continue with the next event
    #[command(after_help = "Example:\n  pillarbox groups skip Account/42")]
    Skip(Release),
}

/// Arguments of `groups pause`.
#[derive(Debug, Args)]
pub(crate) struct Pause {
    /// Groups: the message group, or TYPE/ID of the aggregate
    #[arg(value_name = "GROUP", required = true)]
    groups: Vec<String>,
    /// Reason, shown by `groups list`
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Print what would change and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Arguments of `groups resume`, `unblock` and `skip`.
#[derive(Debug, Args)]
pub(crate) struct Release {
    /// Groups: the message group, or TYPE/ID of the aggregate
    #[arg(value_name = "GROUP", conflicts_with = "all", required_unless_present = "all")]
    groups: Vec<String>,
    /// All groups in this state
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    consent: Consent,
}

impl Groups {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
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

async fn list(session: &Session, store: &dyn Table, group: Option<String>) -> CommandResult {
    if let Some(group) = group {
        let held = store.admin().held(vec![GroupKey::new(group)]).await?;
        return session.output.answer(&Listed(held.iter().map(HeldGroupView::from).collect()));
    }
    let mut listing = Listing::new(session.output);
    let mut next = Some(HeldGroups::first());
    while let Some(request) = next {
        let page = store.admin().groups(request.clone()).await?;
        next = request.following(&page);
        listing.page(&page)?;
    }
    listing.end()
}

impl Pause {
    async fn run(self, session: &Session, store: &dyn Table) -> CommandResult {
        let Self { groups, reason, dry_run } = self;
        let mut changed = Vec::new();
        let groups = groups.iter().map(|group| GroupKey::named(group)).collect::<Result<Vec<_>, _>>();
        for group in groups.map_err(|invalid| CommandError::usage(invalid.to_string()))? {
            if dry_run || change(store, &group, GroupAction::Pause, reason.clone()).await? {
                changed.push(group.to_string());
            }
        }
        session.output.answer(&Changed { action: "pause", did: "paused", dry_run, groups: changed })
    }
}

/// The action and the wording of a command that releases groups.
struct ActionWords {
    action: GroupAction,
    state: GroupState,
    verb: &'static str,
    did: &'static str,
    held: &'static str,
}

const RESUME: ActionWords = ActionWords {
    action: GroupAction::Resume,
    state: GroupState::Paused,
    verb: "resume",
    did: "resumed",
    held: "paused",
};
const UNBLOCK: ActionWords = ActionWords {
    action: GroupAction::Unblock,
    state: GroupState::Blocked,
    verb: "unblock",
    did: "unblocked",
    held: "blocked",
};
const SKIP: ActionWords = ActionWords {
    action: GroupAction::Skip,
    state: GroupState::Blocked,
    verb: "skip",
    did: "skipped the dead head of",
    held: "blocked",
};

impl Release {
    async fn run(self, session: &Session, store: &dyn Table, words: &ActionWords) -> CommandResult {
        let changed = if self.all {
            let there = words.count(store).await?;
            if !self.consent.dry_run && there > 0 {
                let question = format!("{} {}?", words.verb, counted(there, "group"));
                self.consent.obtain(session.output, &question)?;
            }
            self.all_that_are_held(store, words).await?
        } else {
            let groups = named(store, &self.groups, words).await?;
            self.let_go(store, words, groups).await?
        };
        let (action, did, dry_run) = (words.verb, words.did, self.consent.dry_run);
        session.output.answer(&Changed { action, did, dry_run, groups: changed })
    }
}

impl Release {
    /// Releases all held groups page by page. Only the names of changed groups are kept in memory, for the
    /// output.
    async fn all_that_are_held(&self, store: &dyn Table, words: &ActionWords) -> CommandResult<Vec<String>> {
        let mut changed = Vec::new();
        let mut next = Some(HeldGroups::first());
        while let Some(request) = next {
            let page = store.admin().groups(request.clone()).await?;
            next = request.following(&page);
            let held = page.into_iter().filter(|held| held.state == words.state).map(|held| held.group);
            changed.extend(self.let_go(store, words, held.collect()).await?);
        }
        Ok(changed)
    }

    async fn let_go(
        &self,
        store: &dyn Table,
        words: &ActionWords,
        groups: Vec<GroupKey>,
    ) -> CommandResult<Vec<String>> {
        let mut changed = Vec::new();
        for group in groups {
            if self.consent.dry_run || change(store, &group, words.action, None).await? {
                changed.push(group.to_string());
            }
        }
        Ok(changed)
    }
}

impl ActionWords {
    /// The number of groups in the state that the command ends.
    async fn count(&self, store: &dyn Table) -> CommandResult<u64> {
        let stats = store.admin().stats().await?;
        Ok(match self.state {
            GroupState::Blocked => stats.blocked_groups,
            GroupState::Paused => stats.paused_groups,
        })
    }
}

/// The groups of these names. Fails if one of them is not in the state that the command ends.
async fn named(store: &dyn Table, names: &[String], words: &ActionWords) -> CommandResult<Vec<GroupKey>> {
    let groups: Vec<GroupKey> = names.iter().map(|name| GroupKey::new(name.as_str())).collect();
    let held = store.admin().held(groups.clone()).await?;
    let is_held =
        |group: &GroupKey| held.iter().any(|held| held.group == *group && held.state == words.state);
    match groups.iter().find(|group| !is_held(group)) {
        None => Ok(groups),
        Some(group) => {
            Err(CommandError::not_found(format!("group {:?} is not {}", group.as_str(), words.held))
                .hint("`pillarbox groups list` shows the groups that are held back"))
        }
    }
}

async fn change(
    store: &dyn Table,
    group: &GroupKey,
    action: GroupAction,
    reason: Option<String>,
) -> CommandResult<bool> {
    let change = GroupChange { group: group.clone(), action, reason, by: operator(), now: None };
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

impl Printable for Changed {
    fn for_people(&self, _: Ink) -> String {
        let verb = if self.dry_run { format!("would {}", self.action) } else { self.did.to_owned() };
        match self.groups.as_slice() {
            [] => "nothing to change".to_owned(),
            [group] => format!("{verb} {}", one_line(group)),
            groups => format!("{verb} {}", counted(groups.len() as u64, "group")),
        }
    }
}
