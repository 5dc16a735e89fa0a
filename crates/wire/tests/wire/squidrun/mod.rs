//! SquidRun seen from outside: golden frames, roles, what is said and what is told. Noise is in `tests/fuzz`.

mod frames;
mod golden;
mod roles;
mod said;
mod told;

use switchboard_core::verb::Say;
use switchboard_core::{
    Delivery, DeliveryState, Door, Message, MessageId, Priority, Received, Timestamp, To,
};
use switchboard_wire::squidrun::frame::{self, Inbound, Outbound, Spoken};
use switchboard_wire::squidrun::{Addressees, Refused, Roles, Saying, from_wire};

const SAID_AT: Timestamp = Timestamp(1_794_728_661_198);
const NOW: Timestamp = Timestamp(1_794_728_661_199);
const SESSION: u32 = 3;

fn print(frame: &Outbound) -> String {
    let mut out = Vec::new();
    frame::print(frame, &mut out);
    String::from_utf8(out).expect("JSON is UTF-8")
}

/// A line of the golden files, without its end.
fn golden(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/squidrun");
    let line = std::fs::read_to_string(format!("{folder}/{name}.json"));
    let line = line.unwrap_or_else(|error| panic!("{name}: {error}"));
    line.trim_end().to_owned()
}

/// What somebody says to a target.
fn saying(from: &str, to: &str, content: &str) -> Saying {
    Saying {
        id: Some("m1".to_owned()),
        from: Roles::default().speaker(from),
        to: Addressees::One(to.to_owned()),
        content: content.to_owned(),
        priority: None,
        metadata: None,
        trace: None,
        once: false,
    }
}

fn try_say(saying: Saying) -> Result<Say, Box<Refused>> {
    let mut fresh = |kind: &'static str| format!("{kind}_fresh");
    from_wire::say(saying, &Roles::default(), SESSION, &mut fresh)
}

fn say(saying: Saying) -> Say {
    try_say(saying).unwrap_or_else(|refused| panic!("{refused:?}"))
}

fn spoken(line: &str) -> Spoken {
    match frame::read(line.as_bytes()) {
        Ok(Inbound::Send(spoken) | Inbound::Broadcast(spoken)) => spoken,
        other => panic!("{other:?}"),
    }
}

/// The row of what was said, as its recipient gets it.
fn received(say: &Say) -> Received {
    let kind = "custom";
    Received {
        message: Message {
            from: say.from.id().clone(),
            corr_id: say.corr_id.clone(),
            ack_required: say.ack_required,
            ..row(say.id.clone(), say.to.clone(), kind, &say.payload)
        },
        priority: say.priority,
        redelivered: false,
    }
}

fn row(id: MessageId, to: To, kind: &str, payload: &str) -> Message {
    Message {
        corr_id: id.as_str().into(),
        id,
        number: 7,
        from: "claude/1".into(),
        to,
        kind: kind.to_owned(),
        payload: payload.into(),
        ack_required: false,
        handoff: None,
        given: None,
        created_at: SAID_AT,
        expires_at: None,
        acknowledged: None,
        delivered_at: None,
        afar: None,
        rev: 1,
    }
}

fn delivery(state: DeliveryState, via: Option<Door>) -> Delivery {
    let handed = matches!(state, DeliveryState::Handed | DeliveryState::Acknowledged);
    Delivery {
        message: "m1".into(),
        number: 7,
        agent: "builder".into(),
        state,
        priority: Priority::Medium,
        via,
        stream: None,
        delivered_at: handed.then_some(NOW),
        acknowledged_at: None,
        expires_at: None,
        handing_until: None,
        reason: None,
    }
}
