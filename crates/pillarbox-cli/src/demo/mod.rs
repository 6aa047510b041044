//! `demo`: the main job with nothing to install, a crash included.

mod ledger;
mod receiver;

use clap::Args;

use crate::failure::Outcome;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct Demo {}
impl Demo {
    pub(crate) async fn run(self, _output: Output) -> Outcome {
        Ok(())
    }
}
#[derive(Debug, Args)]
pub(crate) struct DemoWorker {}
impl DemoWorker {
    pub(crate) async fn run(self) -> Outcome {
        Ok(())
    }
}
