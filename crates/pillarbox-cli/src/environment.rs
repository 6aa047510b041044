//! The variables the program reads, besides those of the target.

use std::env;
use std::io;

use tracing_subscriber::EnvFilter;

use crate::failure::{Failure, Outcome};

/// What is logged to standard error, as in `pillarbox=debug`.
const LOG: &str = "PILLARBOX_LOG";

/// Starts the log if it is asked for.
pub(crate) fn start_log() -> Outcome {
    let Some(directives) = env::var(LOG).ok().filter(|directives| !directives.is_empty()) else {
        return Ok(());
    };
    let filter = EnvFilter::try_new(&directives).map_err(|_| {
        Failure::usage(format!("{LOG} is not a list of levels")).hint("as in pillarbox=debug or warn")
    })?;
    // A second start in one process keeps the first.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).try_init();
    Ok(())
}

/// Who is recorded as having changed something.
pub(crate) fn operator() -> String {
    let user = ["USER", "LOGNAME", "USERNAME"].into_iter().find_map(|name| env::var(name).ok());
    let user = user.filter(|user| !user.is_empty() && user.len() <= 64);
    format!("cli/{}", user.as_deref().unwrap_or("unknown"))
}
