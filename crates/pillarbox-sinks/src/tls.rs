//! The cryptography of TLS, which rustls leaves to the process.

use rustls::crypto::{CryptoProvider, ring};

/// Makes sure that rustls has a provider, as the clients of HTTP, NATS and Redis expect; they panic without one.
///
/// A provider that the application has installed is kept.
pub fn ensure_tls_provider() {
    if CryptoProvider::get_default().is_none() {
        // Another thread may have been quicker, which is as good.
        let _ = ring::default_provider().install_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_provider_after_any_number_of_calls() {
        ensure_tls_provider();
        ensure_tls_provider();
        assert!(CryptoProvider::get_default().is_some());
    }
}
