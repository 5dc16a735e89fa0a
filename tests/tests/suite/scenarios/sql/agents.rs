//! Agents and what they say to each other.

use serde_json::{Value, json};

use super::{Answered, No, Play, distance, named, or, text};
use crate::scenarios::act::Call;

/// Somebody who is no agent.
pub(super) const STEWARD: &str = "steward";

impl Play {
    /// If the id is taken, and by this very process, it goes on.
    pub(super) async fn register(&mut self, call: &Call) -> Answered {
        let agent = named(call, "agent.id");
        let given = json!({
            "agent": agent,
            "name": named(call, "agent.name"),
            "type": named(call, "agent.type"),
            "skills": or(call, "agent.capabilities.skills", Value::Null),
            "minutes": or(call, "agent.capabilities.maxTaskMinutes", Value::Null),
            "tests": or(call, "agent.capabilities.canRunTests", Value::Null),
            "build": or(call, "agent.capabilities.canRunBuild", Value::Null),
            "browser": or(call, "agent.capabilities.canAccessBrowser", Value::Null),
            "machine": or(call, "agent.machine.id", Value::Null),
            "hostname": or(call, "agent.machine.hostname", Value::Null),
            "pid": or(call, "agent.machine.pid", Value::Null),
        });
        let sql = "SELECT 1 FROM agents WHERE id = ? AND presence <> 'gone' AND machine_id = ? AND pid = ?";
        let pid = given["pid"].to_string();
        let is_known = match given["machine"].as_str() {
            Some(machine) => self.row(sql, [&agent, machine, &pid]).is_some(),
            None => false,
        };
        let block = if is_known {
            "register_again"
        } else {
            "register"
        };
        self.run(block, given).await?;
        let row = self.row("SELECT registered_at FROM agents WHERE id = ?", [&agent]);
        let registered_at = row.expect("who registered is there")["registered_at"].clone();
        Ok(
            json!({"success": true, "agentId": agent, "registeredAt": registered_at, "resumed": is_known}),
        )
    }

    /// What it is at is said by PROGRESS; metrics have no column.
    pub(super) async fn heartbeat(&mut self, call: &Call) -> Option<Answered> {
        if call.given.contains_key("currentTask") || call.given.contains_key("metrics") {
            return None;
        }
        Some(self.beat(call).await)
    }

    async fn beat(&mut self, call: &Call) -> Answered {
        let agent = named(call, "agentId");
        let given = json!({"agent": agent, "status": named(call, "status")});
        let ran = self.run("heartbeat", given).await?;
        let row = ran[0].rows.first().ok_or(No::Row)?;
        let commands = row["commands"].as_str().unwrap_or_default();
        let commands: Vec<Value> = serde_json::from_str(commands).expect("a list of commands");
        // The row is as it was before the hub heard this heartbeat, which is the answer to a ping that was seen.
        let is_answered =
            |command: &Value| command["handed"] == true && command["kind"]["type"] == "ping";
        let commands: Vec<Value> = commands
            .into_iter()
            .filter(|one| !is_answered(one))
            .collect();
        let mut body = json!({"success": true});
        if !commands.is_empty() {
            let order = |command: &Value| {
                let kind = &command["kind"];
                let word = kind["type"].as_str().unwrap_or_default().to_uppercase();
                json!({"type": word, "taskId": kind["task"], "reason": kind["reason"]})
            };
            body["commands"] = commands.iter().map(order).collect();
        }
        Ok(body)
    }

    pub(super) async fn deregister(&mut self, call: &Call) -> Answered {
        let agent = call.id.as_deref().expect("the path names an agent");
        // The row of one that has gone stays for those who ask for it.
        if !self.is_registered(agent) {
            return Err(No::Row);
        }
        let ran = self.run("deregister", json!({"agent": agent})).await?;
        assert_eq!(ran[0].changed, 1, "{agent} was registered");
        Ok(json!({"success": true}))
    }

    /// By SQL whoever is not registered speaks as a person, what is over before it begins is written all the same, and
    /// there is one recipient at most.
    pub(super) async fn send(&mut self, call: &Call) -> Option<Answered> {
        let from = text(call, "agentId")?;
        let is_over = or(call, "message.expiresIn", 1).as_i64() <= Some(0);
        let is_to_several = call.given["message"]["to"].is_array();
        if (from != STEWARD && !self.is_registered(from)) || is_over || is_to_several {
            return None;
        }
        Some(self.post(call).await)
    }

    async fn post(&mut self, call: &Call) -> Answered {
        let message = named(call, "message.id");
        let expires = or(call, "message.expiresIn", Value::Null);
        let payload = or(call, "message.payload", Value::Null);
        let given = json!({
            "message": message,
            "agent": named(call, "agentId"),
            "type": named(call, "message.type"),
            "to": or(call, "message.to", Value::Null),
            "payload": payload.to_string(),
            "ack_required": or(call, "message.ackRequired", false),
            "expires": expires.as_i64().map(distance),
        });
        self.run("send", given).await?;
        let sent = self
            .stage
            .get("getMessage", Some(&message), json!({}))
            .await;
        let recipients = sent["deliveries"].as_array().map_or(0, Vec::len);
        Ok(json!({"success": true, "messageId": message, "recipients": recipients}))
    }

    /// The page's statement takes everything, oldest first, once.
    pub(super) async fn receive(&mut self, call: &Call) -> Option<Answered> {
        if ["since", "types", "limit"]
            .iter()
            .any(|name| call.given.contains_key(*name))
        {
            return None;
        }
        Some(self.read(call).await)
    }

    async fn read(&mut self, call: &Call) -> Answered {
        let agent = named(call, "agentId");
        let mut ran = self.run("receive", json!({"agent": agent})).await?;
        let rows = std::mem::take(&mut ran[0].rows);
        if rows.is_empty() {
            return Err(No::Row);
        }
        let ids: Vec<&Value> = rows.iter().map(|row| &row["id"]).collect();
        let given = json!({"agent": agent, "messages": ids});
        self.run("delivered", given).await?;
        let messages: Vec<Value> = rows
            .iter()
            .map(|row| {
                let id = row["id"].as_str().unwrap_or_default();
                let copy = id.strip_suffix(&format!(":{agent}"));
                let payload = row["payload"].as_str().unwrap_or("null");
                json!({
                    "id": copy.unwrap_or(id),
                    "from": row["from_agent"],
                    "to": if copy.is_some() { Value::Null } else { agent.as_str().into() },
                    "type": row["type"],
                    "payload": serde_json::from_str::<Value>(payload).expect("payloads are JSON"),
                    "ackRequired": row["ack_required"] == 1,
                    "createdAt": row["created_at"],
                })
            })
            .collect();
        Ok(json!({"success": true, "messages": messages}))
    }

    pub(super) async fn acknowledge(&mut self, call: &Call) -> Answered {
        let agent = named(call, "agentId");
        let message = call.id.as_deref().expect("the path names a message");
        let sql = "SELECT id, handoff_task FROM messages WHERE to_agent = ?1 AND id IN (?2, ?2 || ':' || ?1)";
        let row = self.row(sql, [&agent, message]).ok_or(No::Row)?;
        let given = json!({"agent": agent, "message": row["id"]});
        let ran = self.run("acknowledge", given).await?;
        if ran[0].changed == 0 {
            return Err(No::Row);
        }
        let task = row["handoff_task"].as_str();
        let Some(task) = task else {
            return Ok(json!({"success": true}));
        };
        let row = self.row(
            "SELECT epoch FROM tasks WHERE id = ? AND assigned_agent = ?",
            [task, &agent],
        );
        let epoch = row.expect("what was taken over is there")["epoch"].clone();
        self.epochs.insert((agent, task.to_owned()), epoch.clone());
        Ok(json!({"success": true, "taskId": task, "epoch": epoch}))
    }
}
