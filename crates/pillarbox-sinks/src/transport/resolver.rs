//! The resolver: names become addresses only if egress rules allow every one of them.

use std::net::SocketAddr;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::egress::Egress;

/// Most addresses of one name that are looked at.
const ADDRESSES_MAX: usize = 64;

/// Resolves names, and refuses those that lead where nothing may go; without rules every address is good. The client
/// connects to what it is given here, so no second look-up can lead elsewhere.
pub(super) struct Resolver(pub(super) Option<Arc<Egress>>);

/// Why a name has no address.
#[derive(Debug, thiserror::Error)]
#[error("the host name has no address: {0}")]
pub(super) struct Unresolved(String);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let egress = self.0.clone();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await;
            let found = found.map_err(|error| Unresolved(error.to_string()))?;
            let addresses: Vec<SocketAddr> = found.take(ADDRESSES_MAX).collect();
            for address in &addresses {
                egress.as_ref().map_or(Ok(()), |egress| egress.check(address.ip()))?;
            }
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}
