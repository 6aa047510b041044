//! Installs the cryptography provider that rustls expects of the process.

use rustls::crypto::{CryptoProvider, ring};

/// Installs a cryptography provider for rustls if there is none. The clients of HTTP, NATS and Redis panic
/// without one.
///
/// A provider that the application has installed is kept.
pub fn ensure_tls_provider() {
    if CryptoProvider::get_default().is_none() {
        // Fails only if another thread has installed one in the meantime, which serves as well.
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
