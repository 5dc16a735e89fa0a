//! `background-agent`: what Builder asks for, and how it is answered.

use serde::Serialize;
use serde_json::{Map, Value, json};
use switchboard_core::doors::SLOTS;
use switchboard_core::{AgentId, Timestamp};

use super::frame::{BackgroundAgent, Outbound, Response};
use super::roles::{BUILDER, Role, Roles, Target};
use super::words::Status;

/// What an action says of the slot that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    Nobody,
    Slot(AgentId),
    /// Something that is none.
    Wrong,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Spawn {
        slot: Named,
        session_scope_id: Option<String>,
    },
    List,
    Kill(Named),
    KillAll,
    TargetMap,
    /// Ours: the end of what it printed.
    Show(Named),
}

/// One that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct View {
    pub alias: String,
    pub pane_id: String,
    pub owner_pane_id: String,
    /// The program, without its folder and arguments.
    pub runtime: String,
    pub command: String,
    pub status: &'static str,
    pub created_at_ms: i64,
    pub last_activity_at_ms: i64,
    pub session_scope_id: Option<String>,
    pub completion_reason: Option<&'static str>,
}

/// What becomes of an action; its members are those of `result`.
pub type Answer = Value;

/// What is asked for; the answer, if there is no such action.
pub fn read(asked: &BackgroundAgent, roles: &Roles) -> Result<Action, Answer> {
    let payload = asked.payload.as_ref();
    let payload: Value = payload
        .map(|json| json.read().unwrap_or_default())
        .unwrap_or_default();
    let named = || named(&payload, roles);
    let scope = payload.get("sessionScopeId").and_then(Value::as_str);
    Ok(match asked.action.as_str() {
        "spawn" => Action::Spawn {
            slot: named(),
            session_scope_id: scope.map(str::to_owned),
        },
        "list" => Action::List,
        "kill" => Action::Kill(named()),
        "kill-all" => Action::KillAll,
        "target-map" => Action::TargetMap,
        "show" => Action::Show(named()),
        action => {
            let status = Status::InvalidAction;
            return Err(
                json!({ "ok": false, "accepted": false, "status": status, "action": action }),
            );
        }
    })
}

fn named(payload: &Value, roles: &Roles) -> Named {
    let given = ["alias", "target", "slot"].map(|name| payload.get(name));
    let Some(word) = given.into_iter().flatten().find(|it| !it.is_null()) else {
        return Named::Nobody;
    };
    let number = word.as_u64().map(|number| number.to_string());
    let word = word.as_str().map(str::to_owned).or(number);
    let slot = word.and_then(|word| match roles.target(&word) {
        Some(Target::Slot { id, .. }) => Some(id),
        // A number alone is a slot here.
        _ => SLOTS
            .into_iter()
            .find(|slot| slot.strip_prefix("builder-bg-") == Some(word.trim()))
            .map(AgentId::from),
    });
    slot.map_or(Named::Wrong, Named::Slot)
}

/// The answer to who is not Builder.
pub fn not_owner(asked: &BackgroundAgent, sender: &AgentId, roles: &Roles) -> Answer {
    let pane = role(roles, sender.as_str()).map(|role| &role.pane);
    let status = Status::OwnerBindingViolation;
    json!({
        "ok": false, "accepted": false, "status": status, "reason": status, "action": asked.action,
        "senderRole": sender.as_str(), "senderPaneId": pane,
    })
}

pub fn is_owner(sender: &AgentId) -> bool {
    sender.as_str() == BUILDER
}

pub fn spawned(view: &View) -> Answer {
    merged(json!({ "ok": true, "accepted": true }), view)
}

pub fn listed(views: &[View], roles: &Roles) -> Answer {
    json!({ "ok": true, "accepted": true, "status": "ok", "agents": views, "targetMap": map(roles) })
}

pub fn killed(slot: &AgentId, reason: &str, roles: &Roles) -> Answer {
    let pane = role(roles, slot.as_str()).map(|role| &role.pane);
    json!({ "ok": true, "accepted": true, "paneId": pane, "alias": slot.as_str(), "reason": reason })
}

pub fn all_killed(results: Vec<Answer>) -> Answer {
    json!({ "ok": true, "accepted": true, "killed": results.len(), "results": results })
}

pub fn target_map(roles: &Roles) -> Answer {
    merged(
        json!({ "ok": true, "accepted": true, "status": "ok", "targetMap": map(roles) }),
        &map(roles),
    )
}

pub fn shown(view: &View, output: &str) -> Answer {
    merged(
        json!({ "ok": true, "accepted": true, "output": output }),
        view,
    )
}

/// Refused, with what a program tells it by and, where there is one, a sentence for people.
pub fn refused(reason: &str, error: Option<&str>) -> Answer {
    let mut answer = json!({ "ok": false, "accepted": false, "status": reason, "reason": reason, "maxAgents": SLOTS.len() });
    if let Some(error) = error {
        answer["error"] = error.into();
    }
    answer
}

/// `response`
pub fn response(request_id: String, answer: Answer, now: Timestamp) -> Outbound {
    Outbound::Response(Response {
        request_id,
        ok: true,
        result: answer.into(),
        timestamp: now.0,
    })
}

/// What names a slot in the environment of its program, and who it belongs to.
pub fn environment(slot: &AgentId, roles: &Roles) -> Vec<(&'static str, String)> {
    let pane = |id: &str| {
        role(roles, id)
            .map(|role| role.pane.clone())
            .unwrap_or_default()
    };
    vec![
        ("SQUIDRUN_ROLE", slot.to_string()),
        ("SQUIDRUN_PANE_ID", pane(slot.as_str())),
        ("SQUIDRUN_PARENT_PANE_ID", pane(BUILDER)),
        ("SQUIDRUN_BG_ALIAS", slot.to_string()),
    ]
}

pub fn owner(roles: &Roles) -> Option<&Role> {
    role(roles, BUILDER)
}

/// A slot's own words.
pub fn role<'a>(roles: &'a Roles, id: &str) -> Option<&'a Role> {
    roles.iter().find(|role| role.id == id)
}

fn map(roles: &Roles) -> Value {
    let slots: Vec<&Role> = roles.iter().filter(|role| role.owner().is_some()).collect();
    let aliases: Vec<&str> = slots.iter().map(|role| role.id.as_str()).collect();
    let panes: Vec<&str> = slots.iter().map(|role| role.pane.as_str()).collect();
    let pairs = slots
        .iter()
        .map(|role| (role.pane.clone(), Value::from(role.id.as_str())));
    let pairs: Map<String, Value> = pairs.collect();
    json!({
        "ownerPaneId": owner(roles).map(|role| &role.pane), "maxAgents": slots.len(),
        "aliases": aliases, "paneIds": panes, "paneToAlias": pairs,
    })
}

fn merged(mut answer: Value, more: &impl Serialize) -> Answer {
    if let (Some(answer), Ok(Value::Object(more))) =
        (answer.as_object_mut(), serde_json::to_value(more))
    {
        answer.extend(more);
    }
    answer
}
