//! How instants and lists stand in text columns.

use std::borrow::Cow;

use rusqlite::ToSql;
use rusqlite::types::ToSqlOutput;
use switchboard_core::Timestamp;

/// `2026-01-19T10:00:00.000Z`: what direct clients write and compare as text.
pub(super) struct Iso([u8; 24]);

impl Iso {
    pub fn new(at: Timestamp) -> Iso {
        let days = at.0.div_euclid(86_400_000);
        let ms = at.0.rem_euclid(86_400_000);
        let (year, month, day) = civil(days);
        let mut text = *b"0000-00-00T00:00:00.000Z";
        digits(&mut text[0..4], year.clamp(0, 9999));
        digits(&mut text[5..7], month);
        digits(&mut text[8..10], day);
        digits(&mut text[11..13], ms / 3_600_000);
        digits(&mut text[14..16], ms / 60_000 % 60);
        digits(&mut text[17..19], ms / 1000 % 60);
        digits(&mut text[20..23], ms % 1000);
        Iso(text)
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("digits and punctuation are text")
    }
}

impl ToSql for Iso {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(self.as_str()))
    }
}

/// Reads both forms found in the wild: ISO-8601 with `Z`, and SQLite's own `YYYY-MM-DD HH:MM:SS`.
pub(super) fn instant(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<i64> {
        let part = text.get(from..to)?;
        part.bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| part.parse().ok())?
    };
    if bytes.len() < 19 || bytes[4] != b'-' || bytes[7] != b'-' || !matches!(bytes[10], b'T' | b' ')
    {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let seconds = number(11, 13)? * 3600 + number(14, 16)? * 60 + number(17, 19)?;
    let millis = match bytes.get(19) {
        Some(b'.') => {
            let fraction: String = text[20..]
                .chars()
                .take_while(char::is_ascii_digit)
                .take(3)
                .collect();
            format!("{fraction:0<3}").parse().ok()?
        }
        Some(_) | None => 0,
    };
    Some(Timestamp(
        days(year, month, day) * 86_400_000 + seconds * 1000 + millis,
    ))
}

/// A JSON array of strings.
pub(super) fn list<S: AsRef<str>>(items: impl IntoIterator<Item = S>) -> Cow<'static, str> {
    let mut items = items.into_iter().peekable();
    if items.peek().is_none() {
        return Cow::Borrowed("[]");
    }
    let mut text = String::from("[");
    for item in items {
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(&serde_json::Value::from(item.as_ref()).to_string());
    }
    text.push(']');
    Cow::Owned(text)
}

/// The strings of a JSON array; what is not one is left out, because direct clients write these too.
pub(super) fn unlist(text: &str) -> Vec<String> {
    if text == "[]" {
        return Vec::new();
    }
    serde_json::from_str(text).unwrap_or_default()
}

fn digits(slot: &mut [u8], mut value: i64) {
    for digit in slot.iter_mut().rev() {
        *digit = b'0' + u8::try_from(value % 10).unwrap_or(0);
        value /= 10;
    }
}

/// Days since the epoch to year, month, day, by eras of 400 years.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted_month = (month + 9) % 12;
    let of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
    era * 146_097 + of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_survive_their_text() {
        let table = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_768_780_800_123, "2026-01-19T00:00:00.123Z"),
            (4_102_444_799_999, "2099-12-31T23:59:59.999Z"),
        ];
        for (millis, text) in table {
            assert_eq!(Iso::new(Timestamp(millis)).as_str(), text);
            assert_eq!(instant(text), Some(Timestamp(millis)), "{text}");
        }
    }

    #[test]
    fn both_forms_are_read() {
        assert_eq!(
            instant("2026-01-19 00:00:00"),
            instant("2026-01-19T00:00:00Z")
        );
        assert_eq!(
            instant("2026-01-19T00:00:00.5Z"),
            instant("2026-01-19T00:00:00.500Z")
        );
        for wrong in [
            "",
            "soon",
            "2026-01-19",
            "2026/01/19 00:00:00",
            "2026-01-19Txx:00:00Z",
        ] {
            assert_eq!(instant(wrong), None, "{wrong}");
        }
    }
}
