//! Who may do what: roles, and the tokens that prove them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// Minimum characters of a token.
const TOKEN_MIN: usize = 16;
/// Minimum different characters of a token.
const DISTINCT_MIN: usize = 8;
/// Maximum tokens of a role.
const TOKENS_MAX: usize = 16;
/// A token that is given as its hash begins with this word.
const HASHED: &str = "sha256:";

/// What a caller may do. Each role may do everything that the roles before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdminRole {
    /// Ask for health.
    Anyone,
    /// Read metrics.
    Metrics,
    /// Read everything but payloads, headers and what endpoints answered.
    Viewer,
    /// Read everything, and change.
    Operator,
}

impl AdminRole {
    /// All roles, the least first.
    pub const ALL: [Self; 4] = [Self::Anyone, Self::Metrics, Self::Viewer, Self::Operator];

    /// The name for people and documents.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Anyone => "anyone",
            Self::Metrics => "metrics",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
        }
    }
}

/// A caller that the service around a mounted router has authenticated. Its middleware adds this to the
/// extensions of a request; tokens are then not asked for.
#[derive(Debug, Clone)]
pub struct AdminCaller {
    /// What the caller may do.
    pub role: AdminRole,
    /// The name for audit entries.
    pub name: String,
}

/// The tokens of one role, of which more than one is valid during a rotation.
#[derive(Debug, Clone, Default)]
pub struct AccessTokens(Vec<AccessToken>);

/// The hash of a token. Hashes have one length, so that comparing them does not tell that of the token.
#[derive(Clone)]
struct AccessToken {
    hash: [u8; 32],
    until: Option<Timestamp>,
}

/// A text that is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadToken {
    /// There is none.
    #[error("it is empty")]
    Empty,
    /// It is too short.
    #[error("it is shorter than 16 characters")]
    Short,
    /// It is easy to guess.
    #[error("it has fewer than 8 different characters: generate one, as with `openssl rand -hex 32`")]
    Weak,
    /// The text after `sha256:` is not a hash.
    #[error("after sha256: come 64 hexadecimal digits")]
    NotAHash,
    /// The text after `until` is not a time.
    #[error("after `until` comes a time, as in 2030-01-31T00:00:00Z")]
    NotATime,
    /// There are too many.
    #[error("there are more than 16 tokens")]
    TooMany,
}

impl AccessTokens {
    /// Reads tokens, one a line: the token itself, or `sha256:` and its hash in hexadecimal. A line may end with
    /// ` until ` and the time from which the token is refused.
    pub fn parse(text: &str) -> Result<Self, BadToken> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let tokens = lines.map(AccessToken::parse).collect::<Result<Vec<_>, _>>()?;
        match tokens.len() {
            0 => Err(BadToken::Empty),
            1..=TOKENS_MAX => Ok(Self(tokens)),
            _ => Err(BadToken::TooMany),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl AccessToken {
    fn parse(line: &str) -> Result<Self, BadToken> {
        let (token, until) = match line.split_once(" until ") {
            None => (line, None),
            Some((token, time)) => {
                (token.trim_end(), Some(time.trim().parse::<Timestamp>().map_err(|_| BadToken::NotATime)?))
            }
        };
        let hash = match token.strip_prefix(HASHED) {
            Some(digits) => hash_in(digits).ok_or(BadToken::NotAHash)?,
            None if token.chars().count() < TOKEN_MIN => return Err(BadToken::Short),
            None if token.chars().collect::<BTreeSet<_>>().len() < DISTINCT_MIN => {
                return Err(BadToken::Weak);
            }
            None => Sha256::digest(token).into(),
        };
        Ok(Self { hash, until })
    }
}

impl std::fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

fn hash_in(digits: &str) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    if digits.len() != 2 * hash.len() || !digits.is_ascii() {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(digits.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(hash)
}

/// The tokens of an admin API. Without any, everybody who reaches the address is a viewer, and nobody may
/// change anything.
#[derive(Debug, Clone, Default)]
pub struct AdminTokens {
    /// For changes, and everything else.
    pub operator: AccessTokens,
    /// For reading.
    pub viewer: AccessTokens,
    /// For metrics alone.
    pub metrics: AccessTokens,
}

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presented {
    /// It has this role, the highest of those that it is listed for.
    Role(AdminRole),
    /// It was valid until a time that has passed.
    Expired,
    Wrong,
}

impl AdminTokens {
    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.operator.is_empty() && self.viewer.is_empty() && self.metrics.is_empty()
    }

    /// What a token is at this time. Compares with all tokens in constant time.
    pub(crate) fn role_of(&self, given: &str, now: Timestamp) -> Presented {
        let given: [u8; 32] = Sha256::digest(given).into();
        let known = [
            (&self.metrics, AdminRole::Metrics),
            (&self.viewer, AdminRole::Viewer),
            (&self.operator, AdminRole::Operator),
        ];
        let mut presented = Presented::Wrong;
        for (tokens, role) in known {
            for AccessToken { hash, until } in &tokens.0 {
                if !bool::from(hash.ct_eq(&given)) {
                    continue;
                }
                if until.is_none_or(|until| now < until) {
                    presented = Presented::Role(role);
                } else if presented == Presented::Wrong {
                    presented = Presented::Expired;
                }
            }
        }
        presented
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// PBX-200
    #[test]
    fn a_token_has_its_role_also_if_only_its_hash_is_known() {
        let token = "an-operator-of-the-tests";
        let hash = Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let operator = AccessTokens::parse(&format!("sha256:{hash}")).unwrap();
        let viewer = AccessTokens::parse("a-viewer-of-the-tests\n").unwrap();
        let tokens = AdminTokens { operator, viewer, metrics: AccessTokens::default() };
        let role_of = |given: &str| tokens.role_of(given, at(0));
        assert_eq!(role_of(token), Presented::Role(AdminRole::Operator));
        assert_eq!(role_of("a-viewer-of-the-tests"), Presented::Role(AdminRole::Viewer));
        assert_eq!((role_of(&format!("sha256:{hash}")), role_of("")), (Presented::Wrong, Presented::Wrong));
        assert!(!format!("{tokens:?}").contains(&hash[..8]));
    }

    /// PBX-290
    #[test]
    fn several_tokens_are_valid_at_once_each_until_its_end() {
        let text = "the-old-token-of-the-tests until 1970-01-01T00:01:40Z\n\nthe-new-token-of-the-tests\n";
        let tokens = AdminTokens { viewer: AccessTokens::parse(text).unwrap(), ..AdminTokens::default() };
        for (token, second, presented) in [
            ("the-old-token-of-the-tests", 99, Presented::Role(AdminRole::Viewer)),
            ("the-old-token-of-the-tests", 100, Presented::Expired),
            ("the-new-token-of-the-tests", 100, Presented::Role(AdminRole::Viewer)),
        ] {
            assert_eq!(tokens.role_of(token, at(second)), presented, "{token} {second}");
        }
    }

    /// PBX-290
    #[test]
    fn a_text_that_is_no_token_is_refused_with_the_reason() {
        let sixteen = "token-of-the-tests-number-0\n".repeat(17);
        for (text, reason) in [
            ("", BadToken::Empty),
            (" \n ", BadToken::Empty),
            ("short", BadToken::Short),
            ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", BadToken::Weak),
            ("sha256:12", BadToken::NotAHash),
            (&format!("sha256:{}", "é".repeat(32)), BadToken::NotAHash),
            ("a-viewer-of-the-tests until soon", BadToken::NotATime),
            (&sixteen, BadToken::TooMany),
        ] {
            assert_eq!(AccessTokens::parse(text).unwrap_err(), reason, "{text}");
        }
    }
}
