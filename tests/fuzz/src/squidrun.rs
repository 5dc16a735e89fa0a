//! Frames and trigger files of SquidRun: read, refused with a reason, or said within bounds.

use serde_json::Value;
use switchboard_core::{Timestamp, limits};
use switchboard_wire::squidrun::frame::{self, Inbound, NotAFrame, Outbound};
use switchboard_wire::squidrun::{Addressees, Roles, Saying, from_wire, to_wire, trigger};

const NOW: Timestamp = Timestamp(1_794_728_661_199);
/// Room for what an answer says beside the bytes that it repeats.
const ANSWER_BYTES_MAX: usize = 8 * 1024;

pub fn check(bytes: &[u8]) {
    let roles = Roles::default();
    match frame::read(bytes) {
        Ok(Inbound::Send(spoken)) => said(Saying::by_send(spoken, roles.speaker("1")), &roles),
        Ok(Inbound::Broadcast(spoken)) => {
            said(
                Saying::by_broadcast(spoken, roles.speaker("bg-2-1")),
                &roles,
            );
        }
        Ok(Inbound::Register(register)) => told(&to_wire::registered(register, &roles)),
        Ok(Inbound::HealthCheck(check)) => {
            told(&to_wire::health(check, &roles, |_| Some(NOW), NOW));
        }
        Ok(Inbound::DeliveryCheck(check)) => {
            told(&to_wire::delivery_check(
                check,
                to_wire::Found::Pending,
                NOW,
            ));
        }
        Ok(Inbound::Receipt(_) | Inbound::CommsEvent(_) | Inbound::BackgroundAgent(_)) => {}
        Ok(Inbound::Other { request_id, .. }) => {
            told(&Outbound::unsupported(request_id.unwrap_or_default(), NOW));
        }
        Err(NotAFrame::Noise) => {}
        Err(NotAFrame::Wrong(wrong)) => told(&to_wire::wrong(*wrong, NOW)),
    }
    if let Ok(text) = trigger::decode(bytes) {
        said(Saying::by_file(text, Addressees::All, &roles), &roles);
    }
    let name = String::from_utf8_lossy(bytes);
    if let Some(Addressees::One(id)) = trigger::target_of(&name, &roles) {
        assert!(roles.ids().any(|known| known.as_str() == id), "{id}");
    }
}

fn said(saying: Saying, roles: &Roles) {
    let mut fresh = |kind: &'static str| format!("{kind}_1");
    match from_wire::say(saying, roles, 1, &mut fresh) {
        Err(refused) => {
            assert!(!refused.status.is_accepted() && !refused.why.message.is_empty());
            let record = refused.record.map_or(0, |record| record.payload.len());
            assert!(record <= limits::PAYLOAD_BYTES_MAX);
        }
        Ok(say) => {
            assert!(say.payload.len() <= limits::PAYLOAD_BYTES_MAX);
            assert!(say.id.as_str().len() <= limits::ID_BYTES_MAX);
            assert!(say.names.len() <= limits::NAMED_NUMBERS_MAX);
            let payload: Value = serde_json::from_str(&say.payload).unwrap();
            let text = payload["text"].to_string();
            assert_eq!(&say.payload[..say.body_bytes], format!("{{\"text\":{text}"));
            let task = say.task.as_ref();
            assert!(task.is_none_or(|task| task.id.as_str().len() <= limits::ID_BYTES_MAX));
        }
    }
}

fn told(frame: &Outbound) {
    let mut out = Vec::new();
    frame::print(frame, &mut out);
    assert!(serde_json::from_slice::<Value>(&out).is_ok());
    assert!(out.len() <= ANSWER_BYTES_MAX, "{}", out.len());
}
