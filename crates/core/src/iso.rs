//! Instants as text: printed `2026-01-19T10:00:00.000Z`, read in every form that clients write.

use crate::time::Timestamp;

const MS_PER_DAY: i64 = 86_400_000;
/// 0000-01-01T00:00:00.000Z, the earliest instant that four digits can print.
pub const EARLIEST_MS: i64 = -62_167_219_200_000;
/// 9999-12-31T23:59:59.999Z.
pub const LATEST_MS: i64 = 253_402_300_799_999;

/// The text of an instant, without an allocation.
pub struct Printed([u8; 24]);

impl Printed {
    /// Instants outside the years 0 to 9999 are clamped.
    pub fn new(at: Timestamp) -> Printed {
        let ms = at.0.clamp(EARLIEST_MS, LATEST_MS);
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
        Printed(out)
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("digits and punctuation are ASCII")
    }
}

/// Reads ISO-8601 with `Z`, an offset or neither (then UTC), and SQLite's `YYYY-MM-DD HH:MM:SS`.
///
/// Nothing beyond what can be printed: an offset may lead there.
pub fn parse(text: &str) -> Option<Timestamp> {
    let fits = |ms: &i64| (EARLIEST_MS..=LATEST_MS).contains(ms);
    scan(text.as_bytes()).filter(fits).map(Timestamp)
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
