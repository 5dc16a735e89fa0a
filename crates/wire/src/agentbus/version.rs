//! Versions of the protocol: same major, then the lower minor of both.

use std::fmt;
use std::str::FromStr;

/// The version that is spoken here.
pub const PROTOCOL_VERSION: Version = Version { major: 0, minor: 1 };
/// Digits of one part; enough for any version, too few to overflow.
const DIGITS_MAX: usize = 6;

/// `major.minor`, such as `0.1`; a third number is read and means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
}

/// The text is no version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a version such as 0.1")]
pub struct NotAVersion;

/// What both sides speak from the welcome on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    pub version: Version,
    /// The other side is behind: it speaks a lower minor version than this one.
    pub lowered: bool,
}

impl Version {
    /// What is spoken with a sender of version `theirs`; nothing across major versions.
    pub fn agree(self, theirs: Version) -> Option<Agreed> {
        (self.major == theirs.major).then(|| Agreed {
            version: self.min(theirs),
            lowered: theirs.minor < self.minor,
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for Version {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let mut parts = text.split('.').map(part);
        let major = parts.next().ok_or(NotAVersion)??;
        let minor = parts.next().ok_or(NotAVersion)??;
        parts.next().transpose()?;
        match parts.next() {
            None => Ok(Self { major, minor }),
            Some(_) => Err(NotAVersion),
        }
    }
}

fn part(digits: &str) -> Result<u32, NotAVersion> {
    let fits = (1..=DIGITS_MAX).contains(&digits.len());
    if !fits || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(NotAVersion);
    }
    digits.parse().map_err(|_| NotAVersion)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dotted_numbers_are_versions_and_nothing_else_is() {
        // agentbus.version.string
        for (text, major, minor) in [("0.1", 0, 1), ("1.0", 1, 0), ("0.12.3", 0, 12)] {
            assert_eq!(text.parse(), Ok(Version { major, minor }), "{text}");
        }
        for text in [
            "",
            "1",
            "v0.1",
            "0.",
            ".1",
            "0.1.2.3",
            "0.x",
            "0.1.x",
            "-1.0",
            "0.+1",
            "0. 1",
            "0.1234567",
            "１.0",
        ] {
            assert_eq!(text.parse::<Version>(), Err(NotAVersion), "{text}");
        }
    }

    #[test]
    fn the_lower_minor_is_agreed_and_no_major_but_the_own() {
        // agentbus.version.minor_compatible, agentbus.version.major_breaks
        let ours = Version { major: 0, minor: 3 };
        let with = |text: &str| {
            let theirs = text.parse().expect("a version");
            ours.agree(theirs)
                .map(|agreed| (agreed.version.to_string(), agreed.lowered))
        };
        assert_eq!(with("0.3"), Some(("0.3".to_owned(), false)));
        assert_eq!(with("0.1"), Some(("0.1".to_owned(), true)));
        assert_eq!(with("0.9"), Some(("0.3".to_owned(), false)));
        assert_eq!(with("1.3"), None);
    }
}
