//! Refuses to send secrets without TLS to other machines, unless the operator allows it.

use pillarbox::hosts::is_loopback;

use crate::error::SinkError;
use crate::options::SinkOptions;

/// Fails if a secret would be sent to one of these hosts, to which the sink does not use TLS. `what` is the
/// secret and `instead` the way with TLS, both for the message.
pub(crate) fn check<'h>(
    hosts: impl IntoIterator<Item = &'h str>,
    options: &SinkOptions,
    what: &'static str,
    instead: &'static str,
) -> Result<(), SinkError> {
    if options.allow_cleartext || hosts.into_iter().all(is_loopback) {
        return Ok(());
    }
    Err(SinkError::Cleartext { what, instead })
}
