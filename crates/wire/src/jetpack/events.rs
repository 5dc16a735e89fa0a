//! The event log as pages; the stream sends the same objects.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::IsoTime;
use crate::query::{Scalar, query};

/// One entry of the log; the members beyond these depend on the type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    pub seq: u64,
    pub at: IsoTime,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(flatten)]
    pub members: Map<String, Value>,
}

/// `GET /events`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventPage {
    pub success: bool,
    pub events: Vec<Event>,
    /// The `after` of the next page; `null` on the last.
    pub next: Option<u64>,
    /// The newest sequence number.
    pub latest: u64,
    /// The epoch of the ledger; `<epoch>.<number>` identifies an event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// `after` was of another epoch: events after it were lost, and the page starts where the log is unchanged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ledger_rewound: bool,
}

/// A place in the log: a number, or one of a certain epoch of the ledger as `<epoch>.<number>`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventPlace {
    pub epoch: Option<u64>,
    pub number: u64,
}

impl From<u64> for EventPlace {
    fn from(number: u64) -> Self {
        EventPlace {
            epoch: None,
            number,
        }
    }
}

impl fmt::Display for EventPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.epoch {
            Some(epoch) => write!(f, "{epoch}.{}", self.number),
            None => write!(f, "{}", self.number),
        }
    }
}

impl FromStr for EventPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|_| is_number)
        };
        let place = match text.split_once('.') {
            Some((epoch, text)) => {
                number(epoch)
                    .zip(number(text))
                    .map(|(epoch, number)| EventPlace {
                        epoch: Some(epoch),
                        number,
                    })
            }
            None => number(text).map(EventPlace::from),
        };
        place.ok_or_else(|| {
            "expected the number of an event, or <epoch>.<number> as in a stream's id".to_owned()
        })
    }
}

impl Scalar for EventPlace {
    fn read(text: &str) -> Result<Self, String> {
        text.parse()
    }

    fn write(&self) -> String {
        self.to_string()
    }

    fn schema() -> Value {
        json!({ "type": "string", "pattern": "^([0-9]+\\.)?[0-9]+$" })
    }
}

query! {
    /// `GET /events`.
    pub struct EventQuery {
        "after" => after: Option<EventPlace>, "Only events with a higher sequence number; with `<epoch>.<number>` the response also says whether the ledger was rewound.";
        "limit" => limit: Option<u32>, "Page size, at most 1000.";
        "types" => types: Vec<String>, "Only events of these types.";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_number_or_one_of_an_epoch() {
        let place = |epoch, number| Ok(EventPlace { epoch, number });
        assert_eq!("12".parse(), place(None, 12));
        assert_eq!("2.12".parse(), place(Some(2), 12));
        for text in [
            "",
            "x",
            "1.",
            ".1",
            "1.2.3",
            "-1",
            "+1",
            "1.+2",
            "18446744073709551616",
        ] {
            assert!(text.parse::<EventPlace>().is_err(), "{text}");
        }
        for text in ["12", "2.12"] {
            let place: EventPlace = text.parse().unwrap();
            assert_eq!(place.to_string(), text);
        }
    }
}
