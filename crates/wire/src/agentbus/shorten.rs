//! Texts that are too long, cut and marked: what a worker says of an error, and frames that are passed on to operators.

use std::borrow::Cow;

use serde_json::Value;
use switchboard_core::limits;

use super::envelope;
use crate::redact;

/// Stands where something was cut off.
pub const MARK: &str = "[cut]";
/// A list has at most one item for so many bytes that a text may have.
const BYTES_PER_ITEM: usize = 16;

/// The beginning of a text.
pub fn head(text: &str, bytes_max: usize) -> Cow<'_, str> {
    if text.len() <= bytes_max {
        return Cow::Borrowed(text);
    }
    let kept = limits::cut(text, bytes_max.saturating_sub(MARK.len()));
    Cow::Owned(format!("{kept}{MARK}"))
}

/// The end of a text, where the newest lines are.
pub fn tail(text: &str, bytes_max: usize) -> Cow<'_, str> {
    if text.len() <= bytes_max {
        return Cow::Borrowed(text);
    }
    let from = (text.len() + MARK.len()).saturating_sub(bytes_max);
    let kept = &text[text.ceil_char_boundary(from.min(text.len()))..];
    Cow::Owned(format!("{MARK}{kept}"))
}

/// A worker's frame for operators: without secrets, and no longer than a line may be under any number. Where its texts
/// and lists were cut for that, its payload has `cut: true`. `None` if that is not enough.
pub fn passed_on(line: &str, line_max: usize) -> Option<Cow<'_, str>> {
    let room = line_max.saturating_sub(envelope::SEQ_MAX.to_string().len() - 1);
    let clean = redact::json(line);
    if clean.len() <= room {
        return Some(clean);
    }
    let mut frame: Value = serde_json::from_str(&clean).ok()?;
    let payload = frame.get_mut("payload")?.as_object_mut()?;
    payload.insert("cut".to_owned(), true.into());
    let mut bytes_max = limits::NOTE_BYTES_MAX;
    while bytes_max >= limits::NAME_BYTES_MAX {
        frame["payload"]
            .as_object_mut()?
            .values_mut()
            .for_each(|value| cut_all(value, bytes_max));
        let printed = frame.to_string();
        if printed.len() <= room {
            return Some(Cow::Owned(printed));
        }
        bytes_max /= 2;
    }
    None
}

fn cut_all(value: &mut Value, bytes_max: usize) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(cut) = head(text, bytes_max) {
                *text = cut;
            }
        }
        Value::Array(items) => {
            items.truncate(bytes_max / BYTES_PER_ITEM);
            items.iter_mut().for_each(|item| cut_all(item, bytes_max));
        }
        Value::Object(members) => {
            let values = members.values_mut();
            values.for_each(|value| cut_all(value, bytes_max));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_is_cut_between_letters_at_either_end_and_marked() {
        let text = "ä".repeat(20);
        for max in [39, 38, 16, MARK.len()] {
            for cut in [head(&text, max), tail(&text, max)] {
                assert!(cut.len() <= max && cut.len() + 1 >= max, "{max}: {cut}");
            }
            assert!(head(&text, max).ends_with(MARK));
            assert!(tail(&text, max).starts_with(MARK));
        }
        assert!(matches!(head(&text, 40), Cow::Borrowed(_)));
        assert!(matches!(tail(&text, 40), Cow::Borrowed(_)));
        assert_eq!(tail("first then last", 9), "[cut]last");
    }

    #[test]
    fn a_frame_fits_under_any_number_whatever_fills_it() {
        let max = 65_536;
        let frame = |payload: Value| {
            let sender = json!({ "role": "worker", "id": "w1" });
            json!({
                "schema_version": envelope::SCHEMA_VERSION, "message_type": "task_result.v1",
                "sent_at": "2026-02-12T00:00:00Z", "sender": sender, "seq": 1, "payload": payload,
            })
            .to_string()
        };
        let empty = frame(json!({ "text": "" })).len();
        let short = frame(json!({ "text": "x".repeat(max - empty - 15) }));
        assert_eq!(passed_on(&short, max).as_deref(), Some(&*short));
        let folder = "a/".repeat(30);
        let files: Vec<String> = (0..1000).map(|n| format!("{folder}{n}.rs")).collect();
        for payload in [
            json!({ "text": "x".repeat(max - empty - 14) }),
            json!({ "text": "x".repeat(max - empty) }),
            json!({ "text": "x".repeat(50_000), "more": { "in": ["x".repeat(20_000)] } }),
            json!({ "files": files }),
            json!({ "text": "password=hunter22 ".repeat((max - empty) / 18) }),
        ] {
            let line = frame(payload);
            let passed = passed_on(&line, max).expect("it can be cut");
            let mut out = Vec::new();
            let read = envelope::decode(passed.as_bytes()).expect("it is a frame");
            read.passed_on(envelope::SEQ_MAX, &mut out);
            assert!(out.len() - 1 <= max, "{}", out.len());
            let shown: Value = serde_json::from_str(read.payload.get()).expect("it is JSON");
            assert_eq!(shown["cut"], true, "{}", head(&line, 300));
        }
        let numbers: Vec<u64> = vec![1; 40_000];
        let members = (0..9000).map(|n| (n.to_string(), json!(n))).collect();
        assert!(passed_on(&frame(json!({ "numbers": numbers })), max).is_some());
        assert_eq!(passed_on(&frame(Value::Object(members)), max), None);
    }
}
