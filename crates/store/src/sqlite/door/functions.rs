//! Functions of SQLite whose time grows with the product of their arguments, made anew so that it does not.
//!
//! A statement can only be stopped between two instructions, and a call is one instruction. So these charge for what
//! they do, and stop in the middle of it when the statement must.

use std::borrow::Cow;
use std::collections::HashSet;

use memchr::memmem;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, Result};

use super::watch::Meter;
use super::{LIKE_PATTERN_BYTES_MAX, LIKE_STEPS_MAX, VALUE_BYTES_MAX};

pub(super) fn replace_slow_ones(db: &Connection, meter: &Meter) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_DETERMINISTIC
        | FunctionFlags::SQLITE_INNOCUOUS;
    let charged = || meter.clone();
    let meter = charged();
    db.create_scalar_function("instr", 2, flags, move |call| instr(call, &meter))?;
    let meter = charged();
    db.create_scalar_function("replace", 3, flags, move |call| replace(call, &meter))?;
    for arguments in [2, 3] {
        let meter = charged();
        db.create_scalar_function("like", arguments, flags, move |call| like(call, &meter))?;
    }
    for arguments in [1, 2] {
        for (name, ends) in [
            ("trim", Ends::Both),
            ("ltrim", Ends::Left),
            ("rtrim", Ends::Right),
        ] {
            let meter = charged();
            db.create_scalar_function(name, arguments, flags, move |call| {
                trim(call, ends, &meter)
            })?;
        }
    }
    Ok(())
}

fn instr(call: &Context<'_>, meter: &Meter) -> Result<Option<i64>> {
    let (haystack, needle) = (call.get_raw(0), call.get_raw(1));
    let in_bytes = matches!((haystack, needle), (ValueRef::Blob(_), ValueRef::Blob(_)));
    let (Some(haystack), Some(needle)) = (text(haystack), text(needle)) else {
        return Ok(None);
    };
    meter.charge(haystack.len() + needle.len())?;
    let place = memmem::find(&haystack, &needle).map_or(0, |at| match in_bytes {
        true => at + 1,
        false => characters(&haystack[..at]).count() + 1,
    });
    Ok(Some(i64::try_from(place).unwrap_or(i64::MAX)))
}

fn replace(call: &Context<'_>, meter: &Meter) -> Result<Option<String>> {
    let (Some(whole), Some(old)) = (text(call.get_raw(0)), text(call.get_raw(1))) else {
        return Ok(None);
    };
    meter.charge(whole.len() + old.len())?;
    if old.is_empty() {
        return Ok(Some(String::from_utf8_lossy(&whole).into_owned()));
    }
    let Some(new) = text(call.get_raw(2)) else {
        return Ok(None);
    };
    let mut replaced = Vec::with_capacity(whole.len());
    let mut copied = 0;
    for at in memmem::find_iter(&whole, &*old) {
        replaced.extend_from_slice(&whole[copied..at]);
        replaced.extend_from_slice(&new);
        meter.charge(new.len())?;
        copied = at + old.len();
        if replaced.len() > VALUE_BYTES_MAX {
            return Err(failure("string or blob too big"));
        }
    }
    replaced.extend_from_slice(&whole[copied..]);
    if replaced.len() > VALUE_BYTES_MAX {
        return Err(failure("string or blob too big"));
    }
    Ok(Some(String::from_utf8_lossy(&replaced).into_owned()))
}

#[derive(Clone, Copy, PartialEq)]
enum Ends {
    Both,
    Left,
    Right,
}

fn trim(call: &Context<'_>, ends: Ends, meter: &Meter) -> Result<Option<String>> {
    let Some(whole) = text(call.get_raw(0)) else {
        return Ok(None);
    };
    let dropped = match call.len() {
        1 => Some(Cow::Borrowed(&b" "[..])),
        _ => text(call.get_raw(1)),
    };
    let Some(dropped) = dropped else {
        return Ok(None);
    };
    meter.charge(whole.len() + dropped.len())?;
    let dropped: HashSet<&[u8]> = characters(&dropped).collect();
    let (mut from, mut to) = (0, whole.len());
    if ends != Ends::Right {
        let kept = characters(&whole).take_while(|character| dropped.contains(character));
        from = kept.map(<[u8]>::len).sum();
    }
    while ends != Ends::Left && to > from {
        let start = (from..to)
            .rev()
            .find(|at| !is_continuation(whole[*at]))
            .unwrap_or(from);
        if !dropped.contains(&whole[start..to]) {
            break;
        }
        to = start;
    }
    Ok(Some(String::from_utf8_lossy(&whole[from..to]).into_owned()))
}

/// `like(pattern, text)`, with the character that takes `%` and `_` by their word as a third.
fn like(call: &Context<'_>, meter: &Meter) -> Result<Option<bool>> {
    let (pattern, subject) = (text(call.get_raw(0)), text(call.get_raw(1)));
    let escape = match call.len() {
        2 => None,
        _ => match text(call.get_raw(2)) {
            None => return Ok(None),
            Some(escape) if characters(&escape).count() == 1 => Some(escape.into_owned()),
            Some(_) => return Err(failure("ESCAPE expression must be a single character")),
        },
    };
    let (Some(pattern), Some(subject)) = (pattern, subject) else {
        return Ok(None);
    };
    if pattern.len() > LIKE_PATTERN_BYTES_MAX {
        return Err(too_complex());
    }
    meter.charge(pattern.len())?;
    matches(&pieces(&pattern, escape.as_deref()), &subject, meter).map(Some)
}

fn too_complex() -> Error {
    failure("LIKE or GLOB pattern too complex for a text of this size")
}

/// A pattern, character by character.
#[derive(Clone, Copy, PartialEq)]
enum Piece<'a> {
    Any,
    One,
    This(&'a [u8]),
}

fn pieces<'a>(pattern: &'a [u8], escape: Option<&[u8]>) -> Vec<Piece<'a>> {
    let mut pieces = Vec::with_capacity(pattern.len());
    let mut rest = characters(pattern);
    while let Some(character) = rest.next() {
        pieces.push(match character {
            escaped if Some(escaped) == escape => match rest.next() {
                Some(literal) => Piece::This(literal),
                // Nothing follows that it could stand before: nothing matches.
                None => Piece::This(&[0xff]),
            },
            b"%" if pieces.last() == Some(&Piece::Any) => continue,
            b"%" => Piece::Any,
            b"_" => Piece::One,
            literal => Piece::This(literal),
        });
    }
    pieces
}

/// Goes back to the last `%` only: what an earlier one matched can stay.
fn matches(pattern: &[Piece<'_>], subject: &[u8], meter: &Meter) -> Result<bool> {
    let (mut at, mut piece) = (0, 0);
    let mut steps = 0;
    let mut retry: Option<(usize, usize)> = None;
    while at < subject.len() {
        if pattern.get(piece) == Some(&Piece::Any) {
            piece += 1;
            if piece == pattern.len() {
                return Ok(true);
            }
            retry = Some((at, piece));
        }
        let length = character_at(subject, at);
        steps += length;
        if steps > LIKE_STEPS_MAX {
            return Err(too_complex());
        }
        meter.charge(length)?;
        let fits = match pattern.get(piece) {
            Some(Piece::One) => true,
            Some(Piece::This(literal)) => literal.eq_ignore_ascii_case(&subject[at..at + length]),
            // Two of the first kind are one.
            Some(Piece::Any) | None => false,
        };
        if fits {
            (at, piece) = (at + length, piece + 1);
        } else if let Some((from, after)) = retry {
            let from = from + character_at(subject, from);
            retry = Some((from, after));
            (at, piece) = (from, after);
        } else {
            return Ok(false);
        }
    }
    Ok(pattern[piece..].iter().all(|piece| *piece == Piece::Any))
}

/// As text, the way SQLite would make it one; `None` for NULL.
fn text(value: ValueRef<'_>) -> Option<Cow<'_, [u8]>> {
    Some(match value {
        ValueRef::Null => return None,
        ValueRef::Integer(number) => Cow::Owned(number.to_string().into_bytes()),
        ValueRef::Real(number) => Cow::Owned(real(number).into_bytes()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Cow::Borrowed(bytes),
    })
}

fn real(number: f64) -> String {
    if number.is_infinite() {
        return if number < 0.0 { "-Inf" } else { "Inf" }.to_owned();
    }
    if number.fract() == 0.0 && number.abs() < 1e15 {
        return format!("{number:.1}");
    }
    number.to_string()
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

fn character_at(bytes: &[u8], at: usize) -> usize {
    let following = bytes[at + 1..]
        .iter()
        .take_while(|byte| is_continuation(**byte));
    1 + following.count()
}

/// The bytes of each character; also of what is no UTF-8, in some way.
fn characters(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at;
        (start < bytes.len()).then(|| {
            at += character_at(bytes, start);
            &bytes[start..at]
        })
    })
}

fn failure(message: &str) -> Error {
    Error::UserFunctionError(message.into())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rusqlite::types::Value;

    use super::super::turn::Turn;
    use super::super::watch::StatementWatch;
    use super::*;

    fn ours() -> Connection {
        let db = Connection::open_in_memory().unwrap();
        let meter = Meter::new(&Arc::new(StatementWatch::new()), &Arc::new(Turn::new()));
        replace_slow_ones(&db, &meter).unwrap();
        db
    }

    fn answers(db: &Connection, sql: &str) -> Value {
        db.query_row(&format!("SELECT {sql}"), [], |row| row.get(0))
            .unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    #[test]
    fn they_answer_as_the_originals_do() {
        let (plain, ours) = (Connection::open_in_memory().unwrap(), ours());
        let values = [
            "NULL",
            "''",
            "' '",
            "'a'",
            "'  ab a  '",
            "'aaa'",
            "'ABC'",
            "'äbä'",
            "'日本語'",
            "x'6162'",
            "x'62'",
            "12",
            "-1",
            "1.5",
            "100.0",
            "'%'",
            "'a%'",
            "'%b%'",
            "'_'",
            "'__'",
            "'%_b_%'",
            "'%%a'",
            "'a\\%'",
            "'Ä_Ä'",
        ];
        for one in values {
            for function in ["trim", "ltrim", "rtrim"] {
                let sql = format!("{function}({one})");
                assert_eq!(answers(&ours, &sql), answers(&plain, &sql), "{sql}");
            }
            for other in values {
                for sql in [
                    format!("instr({one}, {other})"),
                    format!("trim({one}, {other})"),
                    format!("ltrim({one}, {other})"),
                    format!("rtrim({one}, {other})"),
                    format!("replace({one}, {other}, 'x')"),
                    format!("replace('abab äbä', {one}, {other})"),
                    format!("{one} LIKE {other}"),
                    format!("{one} LIKE {other} ESCAPE '\\'"),
                    format!("'aXbab' LIKE {one} || {other}"),
                ] {
                    assert_eq!(answers(&ours, &sql), answers(&plain, &sql), "{sql}");
                }
            }
        }
    }

    #[test]
    fn large_arguments_take_no_more_than_a_moment() {
        let db = ours();
        let long = "printf('%.*c', 1000000, 'a')";
        for (sql, expected) in [
            (
                format!("instr({long}, printf('%.*c', 500000, 'a') || 'b')"),
                0,
            ),
            (
                format!("length(trim({long} || 'b', printf('%.*c', 500000, 'b') || 'a'))"),
                0,
            ),
            (
                format!("length(replace({long}, printf('%.*c', 500000, 'a') || 'b', ''))"),
                1_000_000,
            ),
            (format!("{long} LIKE '%a%a%a%a%a%a%a%a%b'"), 0),
        ] {
            assert_eq!(answers(&db, &sql), Value::Integer(expected), "{sql}");
        }
        let patterns = format!("SELECT {long} LIKE '%' || printf('%.*c', 1000, '_') || 'b'");
        assert!(
            db.query_row(&patterns, [], |row| row.get::<_, Value>(0))
                .is_err()
        );
    }

    #[test]
    fn replacing_does_not_grow_without_bound() {
        let db = ours();
        let sql = "SELECT replace(printf('%.*c', 100000, 'a'), 'a', printf('%.*c', 100000, 'b'))";
        assert!(db.query_row(sql, [], |row| row.get::<_, Value>(0)).is_err());
    }
}
