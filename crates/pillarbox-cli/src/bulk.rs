//! Changes of many rows: confirmed by the user, with a dry run, and made in bounded batches.

use clap::Args;
use pillarbox::port::StoreError;
use pillarbox_terminal::error::{CommandError, CommandResult};
use pillarbox_terminal::output::{Ink, Output, Printable, Progress, counted};
use serde::Serialize;

/// Rows changed in one transaction.
pub(crate) const BATCH: usize = 500;

/// Whether to ask for confirmation, or only to print what would change.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Consent {
    /// Do not ask for confirmation
    #[arg(long)]
    pub(crate) yes: bool,
    /// Print what would change and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

impl Consent {
    /// Asks for confirmation unless `--yes` was given. Fails unless the answer is yes.
    pub(crate) fn obtain(self, output: Output, question: &str) -> CommandResult {
        if self.yes {
            return Ok(());
        }
        agreed(output.ask(&format!("{question} [y/N]"))?.as_deref(), question)
    }
}

fn agreed(answer: Option<&str>, question: &str) -> CommandResult {
    match answer.map(str::to_lowercase).as_deref() {
        Some("y" | "yes") => Ok(()),
        Some(_) => Err(CommandError::failed("not confirmed: nothing was changed")),
        None => {
            let message = format!("not confirmed, and there is no terminal to ask on: {question}");
            Err(CommandError::usage(message).hint("add --yes to do it, or --dry-run to see what it would do"))
        }
    }
}

/// The result of a change, or of its dry run.
#[derive(Debug, Serialize)]
pub(crate) struct Changed {
    pub(crate) action: &'static str,
    pub(crate) dry_run: bool,
    pub(crate) count: u64,
    #[serde(skip)]
    pub(crate) sentence: Sentence,
}

/// The wording of a result: `replayed 2 events`, `would replay 2 events`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sentence {
    /// The verb in the past tense, such as `replayed`.
    pub(crate) did: &'static str,
    /// The noun in the singular, such as `dead event`.
    pub(crate) what: &'static str,
}

impl Printable for Changed {
    fn for_people(&self, _: Ink) -> String {
        let things = counted(self.count, self.sentence.what);
        match self.dry_run {
            true => format!("would {} {things}", self.action),
            false => format!("{} {things}", self.sentence.did),
        }
    }
}

/// Runs a change in batches until a batch is not full. Returns the number of changed rows.
pub(crate) async fn in_batches(
    progress: &Progress,
    mut change: impl AsyncFnMut(usize) -> Result<u64, StoreError>,
) -> CommandResult<u64> {
    let mut total = 0;
    loop {
        let changed = match change(BATCH).await {
            Ok(changed) => changed,
            Err(error) if total > 0 => {
                return Err(
                    CommandError::from(error).during(format!("stopped after {}", counted(total, "event")))
                );
            }
            Err(error) => return Err(error.into()),
        };
        total += changed;
        progress.add(changed);
        if changed < BATCH as u64 {
            return Ok(total);
        }
    }
}

#[cfg(test)]
mod tests {
    use pillarbox::port::ErrorKind;

    use super::*;
    use pillarbox_terminal::exit::Exit;
    use pillarbox_terminal::output::Reader;

    /// EVT-142
    #[tokio::test]
    async fn batches_go_on_until_one_is_short() {
        let output = Output::new(Reader::Programs);
        let mut left = [500_u64, 500, 3].into_iter();
        let total = in_batches(&output.progress("x", 3), async |_| Ok(left.next().unwrap())).await.unwrap();
        assert_eq!((total, left.next()), (1_003, None));
    }

    #[tokio::test]
    async fn a_failure_tells_how_far_it_got() {
        let output = Output::new(Reader::Programs);
        let (progress, mut first) = (output.progress("x", 3), true);
        let failed = in_batches(&progress, async |_| match std::mem::take(&mut first) {
            true => Ok(500),
            false => Err(StoreError::new(ErrorKind::Unavailable, "replay", "s", "gone")),
        });
        let failure = failed.await.unwrap_err();
        assert_eq!(failure.exit, Exit::Unavailable);
        assert!(failure.message.starts_with("stopped after 500 events: "), "{failure}");
    }

    #[test]
    fn only_a_yes_is_a_yes() {
        for yes in ["y", "Y", "yes", "YES"] {
            assert!(agreed(Some(yes), "delete?").is_ok());
        }
        for no in ["", "n", "no", "yep", "delete"] {
            assert_eq!(agreed(Some(no), "delete?").unwrap_err().exit, Exit::Failed);
        }
    }

    #[test]
    fn nobody_to_ask_is_wrong_usage() {
        let consent = Consent { yes: false, dry_run: false };
        let failure = consent.obtain(Output::new(Reader::Programs), "delete all?").unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.hint.unwrap().contains("--yes"));
    }
}
