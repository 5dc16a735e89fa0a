//! Events: the ledger's own record with its times as text.

use serde_json::{Map, Value};
use switchboard_core::{Event as Recorded, Logged};

use crate::IsoTime;
use crate::jetpack::Event;

/// Members that are instants; the ledger keeps milliseconds, the protocol shows text.
const INSTANTS: &[&str] = &["until", "servedAt"];

/// An event with its place in the log.
pub fn event(logged: &Logged) -> Event {
    Event {
        seq: logged.seq,
        at: logged.at.into(),
        kind: logged.event.kind().to_owned(),
        members: members(&logged.event),
    }
}

/// The same as text, for a stream.
pub fn event_json(logged: &Logged) -> String {
    serde_json::to_string(&event(logged)).expect("an event is made of texts and numbers")
}

fn members(event: &Recorded) -> Map<String, Value> {
    let value = match event {
        Recorded::Newer { members, .. } => serde_json::from_str(members),
        known => serde_json::to_value(known),
    };
    let Ok(Value::Object(mut members)) = value else {
        unreachable!("an event is an object of texts and numbers");
    };
    members.remove("type");
    let is_of_task = matches!(event, Recorded::TaskChanged { .. });
    if let Some(Value::Array(fields)) = members.get_mut("fields").filter(|_| is_of_task) {
        for field in fields {
            *field = member_of_task(field.as_str().unwrap_or_default()).into();
        }
    }
    for name in INSTANTS {
        if let Some(millis) = members.get(*name).and_then(Value::as_i64) {
            members.insert((*name).to_owned(), IsoTime(millis).to_string().into());
        }
    }
    members
}

/// The member of a task that shows this field of its description.
fn member_of_task(field: &str) -> String {
    if field == "kind" {
        return "type".to_owned();
    }
    let mut words = field.split('_');
    let mut member = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        member.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        member.push_str(letters.as_str());
    }
    member
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use switchboard_core::{AgentId, TaskId, Timestamp};

    use super::*;

    #[test]
    fn events_show_their_place_their_type_and_times_as_text() {
        let at = Timestamp(1_768_816_800_000);
        let event = Recorded::LeaseAcquired {
            path: "src/a.rs".to_owned(),
            agent: AgentId::from("a1"),
            task: Some(TaskId::from("t1")),
            fencing: 7,
            until: Timestamp(at.0 + 1000),
        };
        let shown: Value =
            serde_json::from_str(&event_json(&Logged { seq: 3, at, event })).unwrap();
        assert_eq!(
            shown,
            json!({
                "seq": 3, "at": "2026-01-19T10:00:00.000Z", "type": "lease_acquired", "path": "src/a.rs",
                "agent": "a1", "task": "t1", "fencing": 7, "until": "2026-01-19T10:00:01.000Z",
            })
        );
        let ended = Logged {
            seq: 4,
            at,
            event: Recorded::OutageEnded { served_at: at },
        };
        assert_eq!(
            super::event(&ended).members["servedAt"],
            json!("2026-01-19T10:00:00.000Z")
        );
        let newer = Logged {
            seq: 5,
            at,
            event: Recorded::Newer {
                kind: "quorum_reached".to_owned(),
                members: r#"{"of":["a1",2]}"#.to_owned(),
            },
        };
        let shown: Value = serde_json::from_str(&event_json(&newer)).unwrap();
        assert_eq!(
            shown,
            json!({"seq": 5, "at": "2026-01-19T10:00:00.000Z", "type": "quorum_reached", "of": ["a1", 2]})
        );
        let fields = ["title", "kind", "max_retries", "estimatedMinutes"];
        let changed = Recorded::TaskChanged {
            task: TaskId::from("t1"),
            number: 1,
            fields: fields.map(ToOwned::to_owned).to_vec(),
        };
        let event = Logged {
            seq: 5,
            at,
            event: changed,
        };
        assert_eq!(
            super::event(&event).members["fields"],
            json!(["title", "type", "maxRetries", "estimatedMinutes"])
        );
    }
}
