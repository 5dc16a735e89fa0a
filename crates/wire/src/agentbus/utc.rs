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
const UTC_ENDINGS: [&str; 8] = ["Z", "z", "+00:00", "-00:00", "+0000", "-0000", "+00", "-00"];
const DAY_MS: i64 = 86_400_000;

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
        let mut endings = UTC_ENDINGS.iter();
        let said = endings.find_map(|ending| text.strip_suffix(ending));
        let (date, clock) = said
            .and_then(|said| said.split_once(['T', 't']))
            .ok_or(NotUtc)?;
        let usual = (date.len() == 10).then(|| iso::parse(text)).flatten();
        let at = usual
            .map(|at| at.0)
            .or_else(|| day(date)?.checked_add(in_day(clock)?));
        at.filter(|at| (iso::EARLIEST_MS..=iso::LATEST_MS).contains(at))
            .map(Self)
            .ok_or(NotUtc)
    }
}

/// Midnight of a calendar date, an ordinal one (`2026-043`) or one of a week (`2026-W07-4`), with or without hyphens.
fn day(date: &str) -> Option<i64> {
    let (year, rest) = date.split_at_checked(4)?;
    let is_extended = rest.starts_with('-');
    let january = |day: u8| {
        let day = format!("{year}-01-{day:02}");
        iso::parse(&day).map(|at| at.0)
    };
    let rest = rest.strip_prefix('-').unwrap_or(rest);
    if let Some(week) = rest.strip_prefix('W') {
        let (week, day) = match is_extended {
            true => week.split_once('-')?,
            false => week.split_at_checked(2)?,
        };
        let (week, day) = (digits(week, 2)?, digits(day, 1)?);
        // The first week has the fourth of January; the epoch was a Thursday.
        let fourth = january(4)?;
        let first = fourth - (fourth.div_euclid(DAY_MS) + 3).rem_euclid(7) * DAY_MS;
        let monday = first + (week - 1) * 7 * DAY_MS;
        let is_this_year = UtcTime(monday + 3 * DAY_MS).to_string().starts_with(year);
        let exists = week >= 1 && (1..=7).contains(&day) && is_this_year;
        return exists.then_some(monday + (day - 1) * DAY_MS);
    }
    if rest.len() == 3 {
        let at = january(1)? + (digits(rest, 3)? - 1) * DAY_MS;
        return UtcTime(at).to_string().starts_with(year).then_some(at);
    }
    let (month, day) = match is_extended {
        true => rest.split_once('-')?,
        false => rest.split_at_checked(2)?,
    };
    iso::parse(&format!("{year}-{month}-{day}")).map(|at| at.0)
}

/// `HH`, `HH:MM` or `HH:MM:SS`, with or without colons, the last with or without a fraction.
fn in_day(clock: &str) -> Option<i64> {
    let (whole, fraction) = match clock.split_once(['.', ',']) {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (clock, None),
    };
    let fields: Vec<&str> = match whole.contains(':') {
        true => whole.split(':').collect(),
        false => whole
            .as_bytes()
            .chunks(2)
            .map(std::str::from_utf8)
            .collect::<Result<_, _>>()
            .ok()?,
    };
    let mut unit = DAY_MS;
    let mut at = 0;
    // A leap second counts as the last ordinary one.
    for (field, (parts, last, counts)) in
        fields
            .iter()
            .zip([(24, 24, 24), (60, 59, 59), (60, 60, 59)])
    {
        let value = digits(field, 2).filter(|value| *value <= last)?;
        unit /= parts;
        at += value.min(counts) * unit;
    }
    if let Some(fraction) = fraction {
        let shown = fraction
            .get(..fraction.len().min(9))
            .filter(|shown| !shown.is_empty())?;
        fraction
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then_some(())?;
        at += unit * digits(shown, shown.len())? / 10_i64.pow(u32::try_from(shown.len()).ok()?);
    }
    ((1..=3).contains(&fields.len()) && at <= DAY_MS).then_some(at)
}

/// A number of exactly so many digits.
fn digits(text: &str, count: usize) -> Option<i64> {
    let is_number = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
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
            "2026-02-12T00:00:00-0000",
            "2026-02-12T00:00:00+00",
            "2026-02-12T00:00:00,000000000Z",
            "2026-02-12T00:00Z",
            "2026-02-12T00Z",
            "2026-02-12T00:00.0Z",
            "2026-02-11T24:00:00Z",
            "2026-02-11T24:00Z",
            "20260212T000000Z",
            "20260212T0000+00",
            "2026-043T00:00:00Z",
            "2026043T000000Z",
            "2026-W07-4T00:00:00Z",
            "2026W074T000000Z",
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
            "2026-02-12T24:00:01Z",
            "2026-02-12T25:00Z",
            "2026-02-12T00:60Z",
            "2026-02-30T00:00:00Z",
            "20260230T000000Z",
            "2026-366T00:00:00Z",
            "2026-000T00:00:00Z",
            "2026-W54-1T00:00:00Z",
            "2027-W53-1T00:00:00Z",
            "2026-W07-8T00:00:00Z",
            "2026-0212T00:00:00Z",
            "2026-02-12TZ",
            "2026-02-12T0:00Z",
            "2026-02-12T000Z",
            "2026-02-12T00:00:00.Z",
            "2026-02-12T00:00:00:00Z",
            "2026-02-12T00000000Z",
            "9999-12-31T24:00Z",
            "-026-02-12T00:00Z",
            "ééééééTZ",
            "ééTééZ",
            "2026-02-12T00:00:00.éZ",
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
