//! Instants as text: printed `2026-01-19T10:00:00.000Z`, read in every form that clients write.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use switchboard_core::{Timestamp, iso};

/// Milliseconds since the epoch that travel as ISO-8601 text in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct IsoTime(pub i64);

impl IsoTime {
    fn with_text<R>(self, use_text: impl FnOnce(&str) -> R) -> R {
        use_text(iso::Printed::new(Timestamp(self.0)).as_str())
    }
}

/// The text is no instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an ISO-8601 time such as 2026-01-19T10:00:00.000Z")]
pub struct NotATime;

impl FromStr for IsoTime {
    type Err = NotATime;

    /// Reads ISO-8601 with `Z`, an offset or neither (then UTC), and SQLite's `YYYY-MM-DD HH:MM:SS`.
    fn from_str(text: &str) -> Result<Self, NotATime> {
        iso::parse(text).map(|at| Self(at.0)).ok_or(NotATime)
    }
}

impl fmt::Display for IsoTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_text(|text| f.pad(text))
    }
}

impl Serialize for IsoTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.with_text(|text| serializer.serialize_str(text))
    }
}

impl<'de> Deserialize<'de> for IsoTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl de::Visitor<'_> for Text {
            type Value = IsoTime;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an ISO-8601 time such as 2026-01-19T10:00:00.000Z")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<IsoTime, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Text)
    }
}

impl JsonSchema for IsoTime {
    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({ "type": "string", "format": "date-time" })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use switchboard_core::iso::{EARLIEST_MS, LATEST_MS};

    use super::*;

    #[test]
    fn known_instants_print_as_expected() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (1_768_816_800_000, "2026-01-19T10:00:00.000Z"),
            (951_782_400_123, "2000-02-29T00:00:00.123Z"),
            (EARLIEST_MS, "0000-01-01T00:00:00.000Z"),
            (LATEST_MS, "9999-12-31T23:59:59.999Z"),
            (i64::MAX, "9999-12-31T23:59:59.999Z"),
            (i64::MIN, "0000-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(IsoTime(ms).to_string(), text);
        }
    }

    #[test]
    fn every_form_in_use_is_read() {
        for text in [
            "2026-01-19T10:00:00.000Z",
            "2026-01-19T10:00:00Z",
            "2026-01-19 10:00:00",
            "2026-01-19 10:00:00.000",
            "2026-01-19T12:00:00+02:00",
            "2026-01-19T12:00:00+0200",
            "2026-01-19T05:30:00-04:30",
            "2026-01-19T08:00:00.000000000-02",
            "2026-01-19t10:00:00z",
        ] {
            assert_eq!(text.parse(), Ok(IsoTime(1_768_816_800_000)), "{text}");
        }
        assert_eq!(
            "2026-01-19T10:00:00.5Z".parse(),
            Ok(IsoTime(1_768_816_800_500))
        );
        assert_eq!(
            "2026-01-19T10:00:00.1239Z".parse(),
            Ok(IsoTime(1_768_816_800_123))
        );
        assert_eq!("2026-01-19".parse(), Ok(IsoTime(1_768_780_800_000)));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "now",
            "2026-1-19",
            "2026-02-30",
            "2026-13-01",
            "2026-01-19T24:00:00Z",
            "2026-01-19T10:60:00Z",
            "2026-01-19T10:00",
            "2026-01-19T10:00:00.Z",
            "2026-01-19T10:00:00ZZ",
            "2026-01-19T10:00:00+2",
            "1768816800000",
            "2026-01-19x10:00:00",
            "２０２６-01-19",
            "2026-01-19T10:00:00+24:00",
            // Beyond what can be printed.
            "9999-12-31T23:59:59-00:01",
            "0000-01-01T00:00:00+00:01",
        ] {
            assert_eq!(text.parse::<IsoTime>(), Err(NotATime), "{text}");
        }
    }

    proptest! {
        #[test]
        fn printing_agrees_with_jiff(ms in -60_000_000_000_000_i64..250_000_000_000_000) {
            let theirs = jiff::Timestamp::from_millisecond(ms).unwrap().strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string();
            prop_assert_eq!(IsoTime(ms).to_string(), theirs);
        }

        #[test]
        fn what_is_printed_is_read_again(ms in EARLIEST_MS..=LATEST_MS) {
            prop_assert_eq!(IsoTime(ms).to_string().parse(), Ok(IsoTime(ms)));
        }

        #[test]
        fn reading_never_panics(text in ".{0,40}") {
            let _ = text.parse::<IsoTime>();
        }
    }
}
