//! Who a certificate is for: a sender's id and its role, as a certificate and a file system can hold them.
//!
//! The truth is the certificate's URI, `agentbus:<role>:<id>`, in which every byte that is not plain is written `%XX`:
//! so any legal id comes back as it was. The common name is for people only, because it is cut at 64 characters.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest;
use switchboard_core::{AgentId, limits};
use switchboard_wire::agentbus::envelope;
use switchboard_wire::signature::to_hex;

/// A legal sender id: not empty, not too long, without control characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Name(AgentId);

/// What the holder of a certificate may say it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    Worker,
    Operator,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAName {
    #[error("an id must not be empty")]
    Empty,
    #[error("an id may have at most {} bytes", limits::ID_BYTES_MAX)]
    TooLong,
    #[error("an id must not have control characters")]
    Control,
    /// By the rules for every sender.
    #[error("{0}")]
    Refused(String),
    #[error("{0:?} is reserved for the hub, or looks like a reserved id; choose another")]
    Reserved(String),
}

/// No role has this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a role is one of worker, operator")]
pub struct NotARole;

const SCHEME: &str = "agentbus";
/// Common names are no longer, by the standard.
const COMMON_NAME_CHARS_MAX: usize = 64;
/// A longer stem gives way to a digest, so that it and its ending fit any file system.
const STEM_BYTES_MAX: usize = 120;
/// How much of a long stem is kept before the digest.
const STEM_KEPT: usize = 60;
/// The stem of the authority's file, which lies beside those of a certificate.
const AUTHORITY_STEM: &str = "ca";

impl Name {
    /// The id, if one in this role may have it.
    pub fn for_role(text: &str, role: Role) -> Result<Name, NotAName> {
        let name: Name = text.parse()?;
        envelope::check_sender_id(text).map_err(|fault| NotAName::Refused(fault.message))?;
        match role {
            Role::Worker if name.0.is_reserved() => Err(NotAName::Reserved(text.to_owned())),
            Role::Worker | Role::Operator => Ok(name),
        }
    }

    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    pub fn id(&self) -> &AgentId {
        &self.0
    }

    /// What a person reads in the certificate.
    pub(super) fn common_name(&self) -> String {
        self.as_str().chars().take(COMMON_NAME_CHARS_MAX).collect()
    }

    /// What the files of this name are called, without their ending; no two names share it.
    pub fn stem(&self) -> String {
        let hidden = self.as_str().starts_with('.');
        let authority = self.as_str().eq_ignore_ascii_case(AUTHORITY_STEM);
        let mut stem = String::new();
        for (place, byte) in self.as_str().bytes().enumerate() {
            let plain = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
            push(
                &mut stem,
                byte,
                plain && !(place == 0 && (hidden || authority)),
            );
        }
        if stem.len() > STEM_BYTES_MAX {
            let digest = digest::digest(&digest::SHA256, self.as_str().as_bytes());
            stem.truncate(STEM_KEPT);
            stem.push('~');
            stem.push_str(&to_hex(&digest.as_ref()[..16]));
        }
        stem
    }

    pub(super) fn to_uri(&self, role: Role) -> String {
        let mut uri = format!("{SCHEME}:{role}:");
        for byte in self.as_str().bytes() {
            let plain = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
            push(&mut uri, byte, plain);
        }
        uri
    }

    /// Reads only what [`Name::to_uri`] writes: nobody has two names.
    pub(super) fn from_uri(uri: &str) -> Option<(Name, Role)> {
        let (role, escaped) = uri
            .strip_prefix(SCHEME)?
            .strip_prefix(':')?
            .split_once(':')?;
        let role: Role = role.parse().ok()?;
        let name: Name = unescape(escaped)?.parse().ok()?;
        (name.to_uri(role) == uri).then_some((name, role))
    }
}

impl FromStr for Name {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Name, NotAName> {
        if text.is_empty() {
            return Err(NotAName::Empty);
        }
        if text.len() > limits::ID_BYTES_MAX {
            return Err(NotAName::TooLong);
        }
        if text.chars().any(char::is_control) {
            return Err(NotAName::Control);
        }
        Ok(Name(AgentId::from(text)))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Role {
    pub const WORDS: &'static [&'static str] = &["worker", "operator"];

    pub fn as_str(self) -> &'static str {
        match self {
            Role::Worker => "worker",
            Role::Operator => "operator",
        }
    }
}

impl FromStr for Role {
    type Err = NotARole;

    fn from_str(word: &str) -> Result<Role, NotARole> {
        match word {
            "worker" => Ok(Role::Worker),
            "operator" => Ok(Role::Operator),
            _ => Err(NotARole),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

fn push(text: &mut String, byte: u8, plain: bool) {
    if plain {
        text.push(char::from(byte));
    } else {
        text.push('%');
        text.push_str(&to_hex(&[byte]));
    }
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first == b'%' {
            let (pair, after) = after.split_at_checked(2)?;
            let pair = std::str::from_utf8(pair).ok()?;
            bytes.push(u8::from_str_radix(pair, 16).ok()?);
            rest = after;
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_refused_with_its_reason() {
        for (text, expected) in [
            ("", Err(NotAName::Empty)),
            ("worker-3", Ok(())),
            ("job/7 builder", Ok(())),
            ("käthe 🐦", Ok(())),
            ("a\nb", Err(NotAName::Control)),
            ("a\u{85}b", Err(NotAName::Control)),
        ] {
            assert_eq!(text.parse::<Name>().map(|_| ()), expected, "{text:?}");
        }
        let max = limits::ID_BYTES_MAX;
        assert!("x".repeat(max - 1).parse::<Name>().is_ok());
        assert!("x".repeat(max).parse::<Name>().is_ok());
        assert_eq!("x".repeat(max + 1).parse::<Name>(), Err(NotAName::TooLong));
    }

    #[test]
    fn no_worker_has_the_id_of_the_hub_or_of_its_steward() {
        for reserved in ["steward", "switchboard"] {
            assert!(Name::for_role(reserved, Role::Worker).is_err());
            assert!(Name::for_role(reserved, Role::Operator).is_ok());
        }
        assert!(Name::for_role("Stew\u{200d}ard", Role::Worker).is_err());
    }

    #[test]
    fn a_uri_that_was_not_written_here_names_nobody() {
        for uri in [
            "agentbus:worker:",
            "agentbus:director:x",
            "agentbus:worker",
            "agentbus:worker:a b",
            "agentbus:worker:%4",
            "agentbus:worker:%zz",
            "agentbus:worker:%ff",
            "agentbus:worker:%61",
            "agentbus:worker:%2F",
            "agentbus:worker:%0a",
            "other:worker:a",
        ] {
            assert_eq!(Name::from_uri(uri), None, "{uri}");
        }
        let (name, role) = Name::from_uri("agentbus:operator:a%2fb").unwrap();
        assert_eq!((name.as_str(), role), ("a/b", Role::Operator));
    }

    #[test]
    fn file_names_stay_in_their_directory_and_apart() {
        let stem = |text: &str| text.parse::<Name>().unwrap().stem();
        assert_eq!(stem("worker-3"), "worker-3");
        assert_eq!(stem("job/1"), "job%2f1");
        assert_eq!(stem(".."), "%2e.");
        assert_eq!(stem("ca"), "%63a");
        assert_eq!(stem("CA"), "%43A");
        assert_eq!(stem("a%2fb"), "a%252fb");
        let long = [stem(&"ü".repeat(64)), stem(&format!("{}x", "ü".repeat(63)))];
        assert_ne!(long[0], long[1]);
        assert!(long.iter().all(|stem| stem.len() <= STEM_BYTES_MAX));
    }
}
