//! Signs requests according to Standard Webhooks: HMAC-SHA256 over id, timestamp and body.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::Sha256;

use crate::error::SinkError;
use crate::secret::Secret;

/// Prefix of every secret.
const PREFIX: &str = "whsec_";
/// The key sizes that the standard allows, in bytes.
const KEY_MIN: usize = 24;
const KEY_MAX: usize = 64;
/// Characters that are percent-encoded in an id.
const OUTSIDE_ID: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b':');
/// Maximum number of secrets.
const SECRETS_MAX: usize = 8;

/// Signs each request with every secret.
pub(super) struct Signer {
    keys: Vec<Hmac<Sha256>>,
}

impl Signer {
    pub(super) fn new(secrets: &[Secret]) -> Result<Self, SinkError> {
        let bad = |reason: String| SinkError::option("secrets", reason);
        if secrets.is_empty() {
            return Err(bad(
                "a webhook is signed: set a secret, `whsec_` and 24 to 64 random bytes in base64".into(),
            ));
        }
        if secrets.len() > SECRETS_MAX {
            return Err(bad(format!("there are {}, and the maximum is {SECRETS_MAX}", secrets.len())));
        }
        let key = |(number, secret): (usize, &Secret)| {
            let bytes = secret.reveal().strip_prefix(PREFIX).and_then(|text| STANDARD.decode(text).ok());
            let bytes = bytes.filter(|bytes| (KEY_MIN..=KEY_MAX).contains(&bytes.len()));
            let key = bytes.and_then(|bytes| Hmac::new_from_slice(&bytes).ok());
            key.ok_or_else(|| {
                let number = number + 1;
                bad(format!("number {number} is not `{PREFIX}` and {KEY_MIN} to {KEY_MAX} bytes in base64"))
            })
        };
        Ok(Self { keys: secrets.iter().enumerate().map(key).collect::<Result<_, _>>()? })
    }

    /// The value of `webhook-signature`: one signature per secret, separated by spaces.
    pub(super) fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let signature = |key: &Hmac<Sha256>| {
            let mut mac = key.clone();
            mac.update(format!("{id}.{timestamp}.").as_bytes());
            mac.update(body);
            format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
        };
        self.keys.iter().map(signature).collect::<Vec<_>>().join(" ")
    }
}

/// Encodes an id for the signature and the header. Full stops separate the signed fields, so they are
/// percent-encoded, as are all characters that a header can't contain.
pub(super) fn signed_id(id: &str) -> String {
    utf8_percent_encode(id, OUTSIDE_ID).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(byte: u8, len: usize) -> Secret {
        Secret::new(format!("{PREFIX}{}", STANDARD.encode(vec![byte; len])))
    }

    /// The example of the standard's own libraries.
    #[test]
    fn a_known_signature_is_made() {
        let signer = Signer::new(&[Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")]).unwrap();
        let body = br#"{"test": 2432232314}"#;
        let made = signer.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert_eq!(made, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn several_secrets_make_several_signatures() {
        let (old, new) = (secret(1, 24), secret(2, 64));
        let both = Signer::new(&[new.clone(), old.clone()]).unwrap().sign("a", 1, b"x");
        let alone = |secret: Secret| Signer::new(&[secret]).unwrap().sign("a", 1, b"x");
        assert_eq!(both, format!("{} {}", alone(new), alone(old)));
    }

    /// PBX-023
    #[test]
    fn bad_secrets_are_told_by_number_and_not_shown() {
        for bad in ["s3cret", "whsec_s3cret!", "whsec_czNjcmV0"] {
            let error = Signer::new(&[secret(1, 24), Secret::new(bad)]).err().unwrap().to_string();
            assert!(error.contains("number 2") && !error.contains(bad), "{error}");
        }
        assert!(Signer::new(&[]).is_err());
        assert!(Signer::new(&[secret(1, 23)]).is_err());
        assert!(Signer::new(&[secret(1, 65)]).is_err());
        assert!(Signer::new(&vec![secret(1, 24); 9]).is_err());
    }

    #[test]
    fn an_id_holds_no_full_stop() {
        assert_eq!(signed_id("01J-a_b"), "01J-a_b");
        assert_eq!(signed_id("a.b ü%"), "a%2Eb%20%C3%BC%25");
    }
}
