//! Telegram's Bot API, as far as it is used: what is asked of it, what it answers, and what a person's chat says.
//!
//! Sockets, the token and when to try again are elsewhere.

use std::borrow::Cow;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use switchboard_core::verb::Speaker;
use switchboard_core::{Received, USER};

use super::frame::Outbound;
use super::from_wire::{Addressees, Saying};
use super::members::Members;
use super::to_wire::{self, signed};

/// What one message may have, in UTF-16 units, as Telegram counts.
pub const TEXT_UNITS_MAX: usize = 4096;
/// Under a text that was too long.
const CUT: &str = "\n… (cut; 'switchboard journal' has the whole text)";
/// Ids of what came by the bot begin so.
pub const INBOUND: &str = "telegram-in-";
/// Whoever writes to the bot writes to this role.
const ARCHITECT: &str = "architect";
/// At a time; they are small enough to be read whole.
const UPDATES_MAX: u32 = 10;

/// Asks for what came after `offset`, and waits so long for it.
pub fn get_updates(offset: Option<i64>, wait: Duration) -> Value {
    let mut asked = json!({
        "timeout": wait.as_secs(), "limit": UPDATES_MAX, "allowed_updates": ["message"],
    });
    if let Some(offset) = offset {
        asked["offset"] = offset.into();
    }
    asked
}

pub fn send_message(chat: i64, text: &str) -> Value {
    json!({ "chat_id": chat, "text": text })
}

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
pub struct Trouble {
    /// For people.
    pub why: String,
    /// Nothing was done, and it may be asked again after this.
    pub retry_after: Option<Duration>,
}

impl Trouble {
    pub fn of(why: impl Into<String>) -> Trouble {
        Trouble {
            why: why.into(),
            retry_after: None,
        }
    }
}

/// What it answered, if the answer can be read.
pub fn answer(body: &[u8]) -> Option<Result<Value, Trouble>> {
    #[derive(Deserialize)]
    struct Answer {
        ok: bool,
        #[serde(default)]
        result: Value,
        #[serde(default)]
        description: String,
        parameters: Option<Parameters>,
    }
    #[derive(Deserialize)]
    struct Parameters {
        retry_after: Option<u64>,
    }
    let answer: Answer = serde_json::from_slice(body).ok()?;
    Some(match answer.ok {
        true => Ok(answer.result),
        false => Err(Trouble {
            why: answer.description,
            retry_after: answer
                .parameters
                .and_then(|it| it.retry_after)
                .map(Duration::from_secs),
        }),
    })
}

/// Something that came to the bot.
#[derive(Debug, PartialEq, Eq)]
pub struct Update {
    pub id: i64,
    pub chat: Option<i64>,
    /// Or what stands under a picture.
    pub text: Option<String>,
}

/// In the order in which they came. What has no number is none.
pub fn updates(result: &Value) -> Vec<Update> {
    let list = result.as_array().map_or(&[][..], Vec::as_slice);
    let update = |update: &Value| {
        let message = &update["message"];
        let text = message["text"].as_str().or(message["caption"].as_str());
        Some(Update {
            id: update["update_id"].as_i64()?,
            chat: message["chat"]["id"].as_i64(),
            text: text.map(str::to_owned),
        })
    };
    list.iter().filter_map(update).collect()
}

/// What a person wrote to the bot, under an id that follows from its number: however often it is read, it is said once.
pub fn saying(update: i64, text: String) -> Saying {
    let mut metadata = Members::default();
    metadata.set("channel", Value::from("telegram"));
    Saying {
        id: Some(format!("{INBOUND}{update}")),
        from: Speaker::Other(USER.into()),
        to: Addressees::One(ARCHITECT.to_owned()),
        content: text,
        priority: None,
        metadata: metadata.json(),
        trace: None,
        once: false,
    }
}

/// A message as the person reads it there: who says it, and as much as fits into one message.
pub fn text(received: &Received, session: u32) -> String {
    match to_wire::message(received, session) {
        Outbound::Message(frame) | Outbound::Broadcast(frame) => {
            fitting(&signed(&frame.from, &frame.content)).into_owned()
        }
        _ => String::new(),
    }
}

fn fitting(text: &str) -> Cow<'_, str> {
    let units = |text: &str| text.chars().map(char::len_utf16).sum::<usize>();
    if units(text) <= TEXT_UNITS_MAX {
        return text.into();
    }
    let mut room = TEXT_UNITS_MAX - units(CUT);
    let fits = |letter: &char| {
        let left = room.checked_sub(letter.len_utf16());
        room = left.unwrap_or(0);
        left.is_some()
    };
    let kept: String = text.chars().take_while(fits).collect();
    format!("{kept}{CUT}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_to_what_telegram_takes() {
        let most = TEXT_UNITS_MAX;
        for (letter, units) in [("a", 1), ("ä", 1), ("😀", 2)] {
            let whole = letter.repeat(most / units);
            assert_eq!(fitting(&whole), whole);
            let cut = fitting(&format!("{whole}a")).into_owned();
            assert!(cut.ends_with(CUT), "{letter}");
            let count = cut.encode_utf16().count();
            assert!(count <= most && count > most - 2, "{letter}: {count}");
        }
    }

    #[test]
    fn answers_are_read_and_garbage_is_none() {
        let read = |text: &str| answer(text.as_bytes());
        assert_eq!(read(r#"{"ok":true,"result":[1]}"#), Some(Ok(json!([1]))));
        let slow = r#"{"ok":false,"error_code":429,"description":"Too Many Requests","parameters":{"retry_after":7}}"#;
        let trouble = Trouble {
            why: "Too Many Requests".to_owned(),
            retry_after: Some(Duration::from_secs(7)),
        };
        assert_eq!(read(slow), Some(Err(trouble)));
        let bad = r#"{"ok":false,"description":"Bad Request","parameters":{}}"#;
        assert_eq!(read(bad), Some(Err(Trouble::of("Bad Request"))));
        for garbage in ["", "<html>", "[]", "{}", r#"{"ok":"yes"}"#, "{\"ok\":tr"] {
            assert_eq!(read(garbage), None, "{garbage}");
        }
    }

    #[test]
    fn updates_are_taken_as_they_are_and_the_rest_is_passed_over() {
        let came = json!([
            { "update_id": 7, "message": { "chat": { "id": -4 }, "text": "hello" } },
            { "update_id": 8, "message": { "chat": { "id": 5 }, "caption": "a picture" } },
            { "update_id": 9, "edited_message": {} },
            { "message": { "text": "no number" } }, 3, null,
        ]);
        let update = |id, chat, text: Option<&str>| Update {
            id,
            chat,
            text: text.map(str::to_owned),
        };
        assert_eq!(
            updates(&came),
            [
                update(7, Some(-4), Some("hello")),
                update(8, Some(5), Some("a picture")),
                update(9, None, None),
            ]
        );
        assert_eq!(updates(&json!({ "ok": 1 })), []);
    }

    #[test]
    fn an_offset_is_asked_for_only_if_there_is_one() {
        let asked = |offset| get_updates(offset, Duration::from_secs(50));
        assert_eq!(asked(None).get("offset"), None);
        assert_eq!(asked(Some(8))["offset"], 8);
        assert_eq!(asked(None)["timeout"], 50);
    }
}
