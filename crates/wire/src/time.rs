//! Instants as text: printed `2026-01-19T10:00:00.000Z`, read in every form that clients write.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Milliseconds since the epoch that travel as ISO-8601 text in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct IsoTime(pub i64);

const MS_PER_DAY: i64 = 86_400_000;
/// 0000-01-01T00:00:00.000Z, the earliest instant that four digits can print.
const EARLIEST_MS: i64 = -62_167_219_200_000;
/// 9999-12-31T23:59:59.999Z.
const LATEST_MS: i64 = 253_402_300_799_999;
const PRINTED_LEN: usize = 24;

impl IsoTime {
    /// Prints into a fixed buffer; instants outside the years 0 to 9999 are clamped.
    fn print(self) -> [u8; PRINTED_LEN] {
        let ms = self.0.clamp(EARLIEST_MS, LATEST_MS);
        let (year, month, day) = civil(ms.div_euclid(MS_PER_DAY));
        let in_day = ms.rem_euclid(MS_PER_DAY);
        let mut out = *b"0000-00-00T00:00:00.000Z";
        digits(&mut out[0..4], year);
        digits(&mut out[5..7], month);
        digits(&mut out[8..10], day);
        digits(&mut out[11..13], in_day / 3_600_000);
        digits(&mut out[14..16], in_day / 60_000 % 60);
        digits(&mut out[17..19], in_day / 1000 % 60);
        digits(&mut out[20..23], in_day % 1000);
        out
    }

    fn with_text<R>(self, use_text: impl FnOnce(&str) -> R) -> R {
        use_text(std::str::from_utf8(&self.print()).expect("digits and punctuation are ASCII"))
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
        scan(text.as_bytes()).map(Self).ok_or(NotATime)
    }
}

fn scan(text: &[u8]) -> Option<i64> {
    let (date, rest) = text.split_at_checked(10)?;
    let (year, month, day) = (
        number(&date[0..4])?,
        number(&date[5..7])?,
        number(&date[8..10])?,
    );
    if date[4] != b'-'
        || date[7] != b'-'
        || !(1..=12).contains(&month)
        || !(1..=days_in(year, month)).contains(&day)
    {
        return None;
    }
    let midnight = days_from_civil(year, month, day) * MS_PER_DAY;
    if rest.is_empty() {
        return Some(midnight);
    }
    let (clock, mut rest) = rest.split_at_checked(9)?;
    let (hour, minute, second) = (
        number(&clock[1..3])?,
        number(&clock[4..6])?,
        number(&clock[7..9])?,
    );
    let separated = matches!(clock[0], b'T' | b't' | b' ') && clock[3] == b':' && clock[6] == b':';
    // A leap second counts as the last ordinary one.
    if !separated || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut ms = midnight + hour * 3_600_000 + minute * 60_000 + second.min(59) * 1000;
    if let Some(b'.' | b',') = rest.first() {
        let len = rest[1..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if len == 0 {
            return None;
        }
        let shown = &rest[1..=len.min(3)];
        ms += number(shown)? * [100, 10, 1][shown.len() - 1];
        rest = &rest[1 + len..];
    }
    Some(ms - offset_ms(rest)?)
}

fn offset_ms(text: &[u8]) -> Option<i64> {
    let (sign, rest) = match text {
        [] | [b'Z' | b'z'] => return Some(0),
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = match rest {
        [_, _] => (number(rest)?, 0),
        [_, _, b':', _, _] => (number(&rest[0..2])?, number(&rest[3..5])?),
        [_, _, _, _] => (number(&rest[0..2])?, number(&rest[2..4])?),
        _ => return None,
    };
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 3_600_000 + minutes * 60_000))
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |sum, digit| {
        digit
            .is_ascii_digit()
            .then(|| sum * 10 + i64::from(digit - b'0'))
    })
}

fn digits(out: &mut [u8], mut value: i64) {
    for slot in out.iter_mut().rev() {
        *slot = b'0' + u8::try_from(value % 10).expect("a decimal digit fits");
        value /= 10;
    }
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since the epoch to year, month, day: years begin in March, so that the leap day comes last.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
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
    fn inline_schema() -> bool {
        true
    }

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
