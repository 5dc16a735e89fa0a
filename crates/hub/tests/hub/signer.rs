//! Agents that sign and people that bring tokens.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use switchboard_hub::Running;
use switchboard_hub::data_dir::Keys;
use switchboard_wire::IsoTime;
use switchboard_wire::signature::{AgentKey, MasterKey, SignedRequest, body_to_sign};

use crate::harness::{Answer, Client, TestHub};

pub fn now_ms() -> i64 {
    i64::try_from(
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_millis(),
    )
    .unwrap()
}

fn time(offset_ms: i64) -> String {
    IsoTime(now_ms() + offset_ms).to_string()
}

/// The steward's first token comes from whoever may read the data directory; here it is made by hand.
pub async fn steward(hub: &TestHub) -> String {
    make_token(&hub.running, "steward").await
}

/// The key of the ledger that is served.
pub fn master_key(running: &Running) -> MasterKey {
    let read = |name| std::fs::read_to_string(running.data_dir().join(name));
    let text = read(Keys::SHARED).or_else(|_| read(Keys::OWN)).unwrap();
    MasterKey::from_hex(&text).unwrap()
}

pub async fn make_token(running: &Running, scope: &str) -> String {
    use switchboard_core::token::Scope;
    use switchboard_core::verb::CreateToken;
    let id = format!("tok_{scope}");
    let key = master_key(running).agent_key(&format!(" token {id}"), 0);
    let secret = format!("sbt_{}", key.to_text().trim_start_matches("sbk_"));
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, secret.as_bytes());
    let verb = CreateToken {
        id: id.into(),
        name: scope.to_owned(),
        scope: Scope::parse(scope).unwrap(),
        agent: None,
        hash: digest.as_ref().try_into().unwrap(),
    };
    running.hub.run(verb).await.unwrap();
    secret
}

pub async fn bearer(client: Client, method: &str, path: &str, token: &str, body: Value) -> Answer {
    client
        .with(
            method,
            path,
            &[("authorization", &format!("Bearer {token}"))],
            body,
        )
        .await
}

/// A new key for an agent, by the steward.
pub async fn key(hub: &TestHub, token: &str, agent: &str) -> AgentKey {
    let made = bearer(
        hub.client,
        "POST",
        &format!("/api/v1/agents/{agent}/keys"),
        token,
        json!({}),
    )
    .await
    .expect(201);
    AgentKey::from_text(made["key"].as_str().unwrap()).unwrap()
}

pub struct Signer<'a> {
    pub agent: &'a str,
    pub key: &'a AgentKey,
    pub offset_ms: i64,
    pub nonce: &'a str,
}

impl<'a> Signer<'a> {
    pub fn new(agent: &'a str, key: &'a AgentKey) -> Self {
        Signer {
            agent,
            key,
            offset_ms: 0,
            nonce: "n",
        }
    }

    pub fn headers(&self, method: &str, path: &str, body: &str) -> Vec<(String, String)> {
        let timestamp = time(self.offset_ms);
        let request = SignedRequest {
            method,
            path_and_query: path,
            timestamp: &timestamp,
            nonce: Some(self.nonce),
            body: body.as_bytes(),
        };
        let signature = self.key.sign(&request.to_sign());
        [
            ("switchboard-agent", self.agent.to_owned()),
            ("switchboard-timestamp", timestamp),
            ("switchboard-nonce", self.nonce.to_owned()),
            ("switchboard-signature", signature),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }

    pub async fn call(&self, client: Client, method: &str, path: &str, body: &Value) -> Answer {
        let body = if method == "GET" {
            String::new()
        } else {
            body.to_string()
        };
        send(
            client,
            method,
            path,
            &self.headers(method, path, &body),
            &body,
        )
        .await
    }

    /// The body with its own signature in it.
    pub fn sealed(&self, mut body: Value) -> String {
        body["agentId"] = self.agent.into();
        body["timestamp"] = time(self.offset_ms).into();
        body["nonce"] = self.nonce.into();
        let text = body_to_sign(body.to_string().as_bytes()).unwrap();
        body["signature"] = self.key.sign(&text).into();
        body.to_string()
    }
}

pub async fn send(
    client: Client,
    method: &str,
    path: &str,
    headers: &[(String, String)],
    body: &str,
) -> Answer {
    let headers: Vec<(&str, &str)> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    client.send(method, path, &headers, body.to_owned()).await
}
