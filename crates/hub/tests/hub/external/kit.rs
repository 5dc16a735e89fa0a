//! An external agent as somebody else writes it: a key, proofs, and what it was given.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use switchboard_wire::runtime::Jwk;
use switchboard_wire::runtime::jose::hash;
use switchboard_wire::runtime::proof::{Signer, agent_exchange};
use switchboard_wire::signature::to_hex;

use crate::harness::{Answer, Client};
use crate::signer::now_ms;

pub const INVITES: &str = "/ansible/agent/invites";
pub const EXCHANGE: &str = "/ansible/agent/auth/exchange";
pub const REFRESH: &str = "/ansible/agent/auth/refresh";
pub const INVOKE: &str = "/ansible/agent/invoke";
pub const CONTEXT: &str = "/ansible/agent/context-token";
pub const SESSIONS: &str = "/ansible/agent/sessions";
pub const REVOKE: &str = "/ansible/agent/revoke";
pub const AUDIT: &str = "/runtime/v1/audit";

pub const ALL: &[&str] = &[
    "ansible.message.read",
    "ansible.message.send",
    "ansible.task.read",
    "ansible.task.create",
    "ansible.task.claim",
    "ansible.task.update",
    "ansible.task.complete",
    "ansible.status.read",
];

static SERIAL: AtomicU64 = AtomicU64::new(0);

/// A word that nobody else has.
pub fn fresh(kind: &str) -> String {
    format!("{kind}-{}", SERIAL.fetch_add(1, Ordering::Relaxed))
}

/// Base64url without padding.
pub fn b64(bytes: &[u8]) -> String {
    Jwk::of_hex(&to_hex(bytes)).unwrap().x
}

pub struct Far {
    pub id: &'static str,
    pub signer: Signer,
    pub jwk: Value,
    /// What its clock shows, in milliseconds.
    pub now: fn() -> i64,
}

/// The parts of a proof, to be changed before they are signed.
pub struct Proof {
    pub header: Value,
    pub claims: Value,
}

impl Far {
    pub fn new(id: &'static str, seed: u8) -> Far {
        let signer = Signer::from_hex(&format!("{seed:02x}").repeat(32)).unwrap();
        let jwk = serde_json::to_value(Jwk::of_hex(&signer.public_key()).unwrap()).unwrap();
        Far {
            id,
            signer,
            jwk,
            now: now_ms,
        }
    }

    pub fn introduction(&self, invite: &str, nonce: &str) -> Value {
        let signed = agent_exchange(invite, self.id, nonce);
        json!({
            "inviteToken": invite, "agentId": self.id, "nonce": nonce,
            "clientPubKey": self.jwk, "clientProof": self.signer.sign(&signed),
        })
    }

    pub async fn exchange(&self, client: Client, invite: &str) -> Answer {
        let body = self.introduction(invite, &fresh("n"));
        client.send("POST", EXCHANGE, &[], body.to_string()).await
    }

    /// Invited by a hub that asks for nothing, and admitted.
    pub async fn admitted(&self, client: Client, scopes: &[&str]) -> Value {
        let invite = invite(client, self.id, scopes).await;
        self.exchange(client, &invite).await.expect(200)
    }

    pub fn proof(&self, client: Client, path: &str, token: Option<&str>) -> Proof {
        let mut claims = json!({
            "jti": fresh("jti"), "htm": "POST", "htu": format!("http://{}{path}", client.addr),
            "iat": (self.now)() / 1000,
        });
        if let Some(token) = token {
            claims["ath"] = hash(token).into();
        }
        let header = json!({ "typ": "dpop+jwt", "alg": "EdDSA", "jwk": self.jwk });
        Proof { header, claims }
    }

    pub fn sign(&self, proof: &Proof) -> String {
        let part = |value: &Value| b64(value.to_string().as_bytes());
        let said = format!("{}.{}", part(&proof.header), part(&proof.claims));
        let signature = Jwk::of_hex(&self.signer.sign(&said)).unwrap().x;
        format!("{said}.{signature}")
    }

    /// A call with a token and a proof of its own.
    pub async fn call(&self, client: Client, path: &str, token: &str, body: &Value) -> Answer {
        let proof = self.sign(&self.proof(client, path, Some(token)));
        send(client, path, Some(token), &proof, body).await
    }

    pub async fn invoke(
        &self,
        client: Client,
        token: &str,
        operation: &str,
        args: Value,
    ) -> Answer {
        let body = json!({ "operation": operation, "args": args, "nonce": fresh("n") });
        self.call(client, INVOKE, token, &body).await
    }

    pub async fn refresh(&self, client: Client, token: &str) -> Answer {
        let proof = self.sign(&self.proof(client, REFRESH, None));
        let body = json!({ "refreshToken": token, "nonce": fresh("n") });
        send(client, REFRESH, None, &proof, &body).await
    }
}

pub async fn send(
    client: Client,
    path: &str,
    token: Option<&str>,
    proof: &str,
    body: &Value,
) -> Answer {
    let shown = token.map(|token| format!("DPoP {token}"));
    let mut headers = vec![("dpop", proof)];
    if let Some(shown) = &shown {
        headers.push(("authorization", shown));
    }
    client.send("POST", path, &headers, body.to_string()).await
}

pub async fn invite(client: Client, agent: &str, scopes: &[&str]) -> String {
    let body = json!({ "agentId": agent, "scopes": scopes });
    let made = client.post(INVITES, body).await.expect(201);
    text(&made, "inviteToken")
}

pub fn text(body: &Value, name: &str) -> String {
    body[name].as_str().expect(name).to_owned()
}
