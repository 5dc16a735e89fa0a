//! Instants of the bus: ISO-8601 in UTC, and said to be so.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use switchboard_core::{Timestamp, iso};

/// Milliseconds since the epoch; printed `2026-02-12T00:00:00Z`, with milliseconds where there are any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UtcTime(pub i64);

/// The text is no instant in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an ISO-8601 time in UTC such as 2026-02-12T00:00:00Z")]
pub struct NotUtc;

/// What may say that a time is in UTC; Python writes `+00:00`.
const UTC_ENDINGS: [&str; 5] = ["Z", "z", "+00:00", "-00:00", "+0000"];

impl UtcTime {
    fn with_text<R>(self, use_text: impl FnOnce(&str) -> R) -> R {
        let printed = iso::Printed::new(Timestamp(self.0));
        let text = printed.as_str();
        if !text.ends_with(".000Z") {
            return use_text(text);
        }
        let mut short = [b'Z'; 20];
        short[..19].copy_from_slice(&text.as_bytes()[..19]);
        use_text(std::str::from_utf8(&short).expect("digits and punctuation are ASCII"))
    }
}

impl From<Timestamp> for UtcTime {
    fn from(at: Timestamp) -> Self {
        Self(at.0)
    }
}

impl From<UtcTime> for Timestamp {
    fn from(at: UtcTime) -> Self {
        Timestamp(at.0)
    }
}

impl FromStr for UtcTime {
    type Err = NotUtc;

    fn from_str(text: &str) -> Result<Self, NotUtc> {
        let timed = matches!(text.as_bytes().get(10), Some(b'T' | b't'));
        let said = UTC_ENDINGS.iter().any(|ending| text.ends_with(ending));
        if !timed || !said {
            return Err(NotUtc);
        }
        iso::parse(text).map(Self::from).ok_or(NotUtc)
    }
}

impl fmt::Display for UtcTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_text(|text| f.pad(text))
    }
}

impl Serialize for UtcTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.with_text(|text| serializer.serialize_str(text))
    }
}

impl<'de> Deserialize<'de> for UtcTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl de::Visitor<'_> for Text {
            type Value = UtcTime;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an ISO-8601 time in UTC such as 2026-02-12T00:00:00Z")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<UtcTime, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_says_it_is_utc_is_read() {
        // agentbus.envelope.sent_at
        let at = UtcTime(1_770_854_400_000);
        for text in [
            "2026-02-12T00:00:00Z",
            "2026-02-12T00:00:00.000Z",
            "2026-02-12t00:00:00z",
            "2026-02-12T00:00:00+00:00",
            "2026-02-12T00:00:00.000000+00:00",
            "2026-02-12T00:00:00+0000",
        ] {
            assert_eq!(text.parse(), Ok(at), "{text}");
        }
        for text in [
            "",
            "now",
            "1770854400",
            "2026-02-12",
            "2026-02-12Z",
            "2026-02-12 00:00:00Z",
            "2026-02-12T00:00:00",
            "2026-02-12T02:00:00+02:00",
            "2026-02-12T24:00:00Z",
            "2026-02-30T00:00:00Z",
            "2026-02-12T00:00Z",
            "ééééééTZ",
        ] {
            assert_eq!(text.parse::<UtcTime>(), Err(NotUtc), "{text}");
        }
    }

    #[test]
    fn milliseconds_are_printed_where_there_are_any() {
        assert_eq!(
            UtcTime(1_770_854_400_000).to_string(),
            "2026-02-12T00:00:00Z"
        );
        assert_eq!(
            UtcTime(1_770_854_400_120).to_string(),
            "2026-02-12T00:00:00.120Z"
        );
        assert_eq!(UtcTime(i64::MIN).to_string(), "0000-01-01T00:00:00Z");
    }
}
