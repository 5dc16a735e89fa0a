//! Trigger files: a text in a file whose name says whom it is for. For when the broker is not there.

use std::borrow::Cow;

use serde_json::{Map, Value};
use switchboard_core::limits;

use super::roles::BUILDER;
use super::{Addressees, Roles, Target};

/// Whom a file is for, by its name; `None` if it is for nobody. Background slots, `user` and `telegram` have no files.
pub fn target_of(file_name: &str, roles: &Roles) -> Option<Addressees> {
    let stem = file_name.strip_suffix(".txt")?;
    let name = stem.split_once('~').map_or(stem, |(name, _)| name);
    let role = |word: &str| match roles.target(word)? {
        Target::Role(id) => Some(id),
        Target::Slot { .. } | Target::User | Target::Telegram => None,
    };
    match name.to_ascii_lowercase().as_str() {
        "all" => Some(Addressees::All),
        "workers" | "implementers" => Some(Addressees::One(BUILDER.to_owned())),
        name => match name.strip_prefix("others-") {
            Some(but) => role(but).map(Addressees::Others),
            None => role(name).map(|id| Addressees::One(id.to_string())),
        },
    }
}

/// A file that is no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotText {
    #[error("the file is neither UTF-8 nor UTF-16 (little-endian, with a byte order mark)")]
    Encoding,
    #[error("the text is longer than {} bytes", limits::PAYLOAD_BYTES_MAX)]
    TooLong,
}

/// The text of a file, without control characters but tab and newline.
pub fn decode(bytes: &[u8]) -> Result<String, NotText> {
    let text = match bytes {
        [0xff, 0xfe, utf16 @ ..] => {
            let (pairs, odd) = utf16.as_chunks::<2>();
            let units = pairs.iter().map(|pair| u16::from_le_bytes(*pair));
            let text = char::decode_utf16(units).collect::<Result<String, _>>();
            text.ok().filter(|_| odd.is_empty()).map(Cow::Owned)
        }
        utf8 => std::str::from_utf8(utf8).ok().map(Cow::Borrowed),
    };
    let text = text.ok_or(NotText::Encoding)?;
    let text = clean(&text);
    match text.len() <= limits::PAYLOAD_BYTES_MAX {
        true => Ok(text.into_owned()),
        false => Err(NotText::TooLong),
    }
}

/// A text without byte order mark and control characters but tab and newline: the same by file and by frame.
pub(super) fn clean(text: &str) -> Cow<'_, str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let stays = |letter: char| !letter.is_control() || matches!(letter, '\t' | '\n');
    match text.chars().all(stays) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(text.chars().filter(|letter| stays(*letter)).collect()),
    }
}

/// A text and the lines that are no part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content<'a> {
    /// Of a first line `[HM-MESSAGE-ID:…]`.
    pub id: Option<&'a str>,
    /// Of a line `[HM-FROM:…]` after it; ours.
    pub from: Option<&'a str>,
    pub body: &'a str,
    /// Of a last line `[PROJECT CONTEXT] …`.
    pub project: Option<&'a str>,
}

pub fn read(text: &str) -> Content<'_> {
    let mut body = text.trim();
    let id = marked(&mut body, ID);
    let from = marked(&mut body, FROM);
    let (before, last) = body.rsplit_once('\n').unwrap_or(("", body));
    let project = last.trim_start().strip_prefix("[PROJECT CONTEXT]");
    if project.is_some() {
        body = before.trim_end();
    }
    Content {
        id,
        from,
        body,
        project: project.map(str::trim),
    }
}

const ID: &str = "[HM-MESSAGE-ID:";
const FROM: &str = "[HM-FROM:";

/// What the first line says, if it begins so; the text goes on after it.
fn marked<'a>(body: &mut &'a str, mark: &str) -> Option<&'a str> {
    let (first, rest) = body.split_once('\n').unwrap_or((body, ""));
    let value = first.trim_end().strip_prefix(mark)?.strip_suffix(']')?;
    *body = rest.trim();
    Some(value.trim())
}

/// A file's text; `from` where no header says who speaks.
pub fn print(id: &str, from: Option<&str>, body: &str) -> String {
    let from = from.map(|from| format!("{FROM}{from}]\n"));
    format!("{ID}{id}]\n{}{body}\n", from.unwrap_or_default())
}

/// `name=demo | path=/home/u/demo` as an object.
pub(super) fn project(line: &str) -> Value {
    let pairs = line.split(" | ").take(PROJECT_MEMBERS_MAX);
    let members = pairs.filter_map(|pair| pair.split_once('='));
    let members = members.map(|(name, value)| (name.trim().to_owned(), value.trim().into()));
    Value::Object(members.collect::<Map<String, Value>>())
}

const PROJECT_MEMBERS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn one(id: &str) -> Option<Addressees> {
        Some(Addressees::One(id.to_owned()))
    }

    #[test]
    fn a_name_says_whom_a_file_is_for() {
        let roles = Roles::default();
        for (name, target) in [
            ("architect.txt", one("architect")),
            ("arch.txt", one("architect")),
            ("1.txt", one("architect")),
            ("2.txt", one("builder")),
            ("3.txt", one("oracle")),
            ("devops.txt", one("builder")),
            ("Worker-B.txt", one("builder")),
            ("analyst.txt", one("oracle")),
            ("workers.txt", one("builder")),
            ("implementers.txt", one("builder")),
            ("builder~hm-1-x.txt", one("builder")),
            ("2~a~b.txt", one("builder")),
            ("all.txt", Some(Addressees::All)),
            ("all~1.txt", Some(Addressees::All)),
            (
                "others-architect.txt",
                Some(Addressees::Others("architect".into())),
            ),
            (
                "others-devops.txt",
                Some(Addressees::Others("builder".into())),
            ),
        ] {
            assert_eq!(target_of(name, &roles), target, "{name}");
        }
        for name in [
            "",
            ".txt",
            "~x.txt",
            "builder",
            "builder.txt.tmp",
            "builder.md",
            "nobody.txt",
            "others-.txt",
            "others-nobody.txt",
            "others-builder-bg-1.txt",
            "user.txt",
            "telegram.txt",
            "../builder.txt",
        ] {
            assert_eq!(target_of(name, &roles), None, "{name}");
        }
    }

    #[test]
    fn background_slots_have_no_file() {
        let roles = Roles::default();
        for slot in 1..=3 {
            for name in [format!("builder-bg-{slot}"), format!("bg-2-{slot}")] {
                assert!(roles.target(&name).is_some());
                for file in [format!("{name}.txt"), format!("{name}~x.txt")] {
                    assert_eq!(target_of(&file, &roles), None, "{file}");
                }
            }
        }
    }

    fn utf16(text: &str) -> Vec<u8> {
        let units = text.encode_utf16().flat_map(u16::to_le_bytes);
        [0xff, 0xfe].into_iter().chain(units).collect()
    }

    #[test]
    fn a_file_is_read_in_each_encoding_without_control_characters() {
        let text = "(ARCH #1): héllo 🦑\tx\ny";
        let with_mark = format!("\u{feff}{text}");
        for bytes in [text.as_bytes(), with_mark.as_bytes(), &utf16(text)] {
            assert_eq!(decode(bytes).as_deref(), Ok(text));
        }
        let dirty = "a\0b\r\nc\u{1b}[2J\u{7f}\u{9b}d";
        for bytes in [dirty.as_bytes(), &utf16(dirty)] {
            assert_eq!(decode(bytes).as_deref(), Ok("ab\nc[2Jd"));
        }
        assert_eq!(decode(b"").as_deref(), Ok(""));
        let odd = [&utf16("ab")[..], b"c"].concat();
        for bytes in [
            &b"\xff"[..],
            b"a\xc3",
            b"\xff\xfe\x00\xd8",
            b"\xfe\xff\0a",
            &odd,
        ] {
            assert_eq!(decode(bytes), Err(NotText::Encoding), "{bytes:?}");
        }
        let max = limits::PAYLOAD_BYTES_MAX;
        for (bytes, fits) in [(max - 1, true), (max, true), (max + 1, false)] {
            assert_eq!(decode(&vec![b'x'; bytes]).is_ok(), fits, "{bytes}");
        }
    }

    #[test]
    fn the_id_and_the_project_are_no_part_of_the_body() {
        let read = |text| {
            let Content {
                id, body, project, ..
            } = read(text);
            (id, body, project)
        };
        let file = "[HM-MESSAGE-ID:hm-1794728687766-8wx0dz]\n(BUILDER #2): FINDING: test\n\
                    [PROJECT CONTEXT] name=demo | path=/home/u/demo\n";
        let project = "name=demo | path=/home/u/demo";
        let body = "(BUILDER #2): FINDING: test";
        let id = "hm-1794728687766-8wx0dz";
        assert_eq!(read(file), (Some(id), body, Some(project)));
        assert_eq!(
            super::project(project),
            json!({ "name": "demo", "path": "/home/u/demo" })
        );
        for (text, parts) in [
            ("x", (None, "x", None)),
            ("  x\ny \n", (None, "x\ny", None)),
            ("[HM-MESSAGE-ID:a]", (Some("a"), "", None)),
            ("[HM-MESSAGE-ID:a]\n\nx", (Some("a"), "x", None)),
            ("x\n[HM-MESSAGE-ID:a]", (None, "x\n[HM-MESSAGE-ID:a]", None)),
            ("[HM-MESSAGE-ID:a] x", (None, "[HM-MESSAGE-ID:a] x", None)),
            ("[PROJECT CONTEXT]", (None, "", Some(""))),
            (
                "x\n[PROJECT CONTEXT] a\ny",
                (None, "x\n[PROJECT CONTEXT] a\ny", None),
            ),
        ] {
            assert_eq!(read(text), parts, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_clean_text_or_none(mut bytes: Vec<u8>, utf16: bool) {
            if utf16 {
                bytes.splice(0..0, [0xff, 0xfe]);
            }
            if let Ok(text) = decode(&bytes) {
                prop_assert!(text.len() <= 3 * bytes.len());
                prop_assert!(!text.chars().any(|it| it.is_control() && !matches!(it, '\t' | '\n')));
                prop_assert!(text.contains(read(&text).body));
            }
        }

        #[test]
        fn any_name_is_for_somebody_known_or_nobody(name in "\\PC{0,20}(~\\PC{0,5})?(\\.txt)?") {
            let roles = Roles::default();
            if let Some(Addressees::One(id)) = target_of(&name, &roles) {
                prop_assert!(roles.ids().any(|known| known.as_str() == id));
            }
        }
    }
}
