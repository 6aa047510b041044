//! Resolves host names, and refuses a name if egress rules forbid any of its addresses.

use std::net::SocketAddr;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::egress::Egress;

/// Maximum number of addresses of one name. Further addresses are dropped, so they are never connected to.
const ADDRESSES_MAX: usize = 64;

/// Resolves host names under egress rules; without rules it allows every address. The client connects to the
/// addresses that were checked here, so DNS rebinding does not get around the rules.
pub(super) struct Resolver(pub(super) Option<Arc<Egress>>);

/// The error for a name that can't be resolved.
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
