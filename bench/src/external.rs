//! External agents beside agents of the HTTP interface: pairs of claim and complete, each call with a proof of its own; and
//! what their audit costs those who are not external.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use switchboard_wire::runtime::Jwk;
use switchboard_wire::runtime::jose::hash;
use switchboard_wire::runtime::proof::{Signer, agent_exchange};
use switchboard_wire::signature::to_hex;

use crate::answers::{self, Held};
use crate::http::{Answer, Requests};
use crate::hub_process::Hub;
use crate::load::{self, Script, Verdict};
use crate::operations::{Operation, run_operation};
use crate::preload::{self, Skill};
use crate::report::{ExternalRow, middle};
use crate::scripts::agent_name;
use crate::settings::Settings;

const CONNECTIONS: usize = 64;
const INVOKE: &str = "/ansible/agent/invoke";
/// More than a run can take.
const TASKS: u64 = 60_000;

/// The middle of some rounds: plain agents, external ones, and plain ones again with the audit that these left.
pub fn measure(settings: &Settings, binary: &Path) -> anyhow::Result<ExternalRow> {
    let rounds = 1..=settings.rounds;
    let rows: anyhow::Result<Vec<ExternalRow>> = rounds
        .map(|round| {
            crate::progress(format_args!("external agents, round {round}"));
            measure_round(settings, binary)
        })
        .collect();
    Ok(middle(&rows?))
}

fn measure_round(settings: &Settings, binary: &Path) -> anyhow::Result<ExternalRow> {
    let home = settings.new_home()?;
    let hub = Hub::start(binary, home.path())?;
    for number in 0..CONNECTIONS {
        hub.register(&agent_name(number))?;
    }
    let plain = |tasks: u64| {
        preload::fill(&hub, Skill::Matching, 0, tasks)?;
        hub.settle()?;
        run_operation(
            settings,
            &[hub.server],
            Operation::ClaimComplete,
            CONNECTIONS,
        )
    };
    let before = plain(TASKS)?;
    let agents: anyhow::Result<Vec<_>> = (0..CONNECTIONS)
        .map(|number| Ok((hub.server, External::admitted(&hub, agent_name(number))?)))
        .collect();
    hub.settle()?;
    let external = load::run_spread(settings.plan(settings.hub_for), agents?)?;
    let after = plain(TASKS / 2)?;
    Ok(ExternalRow {
        connections: CONNECTIONS,
        http_pairs_per_s: before.units_per_s(),
        invoke_pairs_per_s: external.units_per_s(),
        invoke_p99_ms: external.latency.p99_ms(),
        to_http: external.units_per_s() / before.units_per_s(),
        others_beside_audit: after.units_per_s() / before.units_per_s(),
        errors: before.errors + external.errors + after.errors,
        errors_told: external.errors_told,
    })
}

/// One external agent on one connection: claims a task, completes it, and claims the next.
struct External {
    requests: Requests,
    signer: Signer,
    /// The first part of each proof.
    head: String,
    address: String,
    token: String,
    ath: String,
    held: Held,
    holds: bool,
    serial: u64,
}

impl External {
    /// Whoever is registered already is external, too, from here on.
    fn admitted(hub: &Hub, agent: String) -> anyhow::Result<External> {
        let seed = to_hex(hash(&agent).as_bytes())
            .chars()
            .take(64)
            .collect::<String>();
        let signer = Signer::from_hex(&seed).context("a seed is 32 bytes")?;
        let jwk = Jwk::of_hex(&signer.public_key()).context("a key is hexadecimal")?;
        let scopes = ["ansible.task.claim", "ansible.task.complete"];
        let invite = asked(
            hub,
            "/ansible/agent/invites",
            &json!({ "agentId": agent, "scopes": scopes }),
        )?;
        let invite = invite["inviteToken"].as_str().context("no invite")?;
        let tokens = asked(
            hub,
            "/ansible/agent/auth/exchange",
            &json!({
                "inviteToken": invite, "agentId": agent, "nonce": "n", "clientPubKey": jwk,
                "clientProof": signer.sign(&agent_exchange(invite, &agent, "n")),
            }),
        )?;
        let token = tokens["accessToken"]
            .as_str()
            .context("no token")?
            .to_owned();
        let head = json!({ "typ": "dpop+jwt", "alg": "EdDSA", "jwk": jwk });
        Ok(External {
            requests: Requests::new(hub.server),
            head: b64(head.to_string().as_bytes()),
            address: address(hub.server),
            ath: hash(&token),
            token,
            signer,
            held: Held::default(),
            holds: false,
            serial: 0,
        })
    }

    fn proof(&self) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let (iat, jti) = (now.map_or(0, |now| now.as_secs()), self.serial);
        let (htu, ath) = (&self.address, &self.ath);
        let said =
            format!(r#"{{"jti":"j{jti}","htm":"POST","htu":"{htu}","iat":{iat},"ath":"{ath}"}}"#);
        let text = format!("{}.{}", self.head, b64(said.as_bytes()));
        let signature = Jwk::of_hex(&self.signer.sign(&text)).map_or(String::new(), |it| it.x);
        format!("{text}.{signature}")
    }
}

impl Script for External {
    fn request(&mut self, out: &mut Vec<u8>) {
        self.serial += 1;
        let (id, serial) = (&self.held.id, self.serial);
        let body = match self.holds {
            false => format!(r#"{{"operation":"ansible_claim_task","nonce":"n{serial}"}}"#),
            true => format!(
                r#"{{"operation":"ansible_complete_task","nonce":"n{serial}","args":{{"taskId":"{id}","resultSummary":"The function is changed and its tests pass."}}}}"#
            ),
        };
        let (token, proof) = (&self.token, self.proof());
        let headers = format_args!("authorization: DPoP {token}\r\ndpop: {proof}\r\n");
        self.requests
            .post_with(out, format_args!("{INVOKE}"), headers, body.as_bytes());
    }

    fn answer(&mut self, answer: &Answer<'_>) -> Verdict {
        let completed = std::mem::take(&mut self.holds);
        if answer.status != 200 {
            return Verdict::Failed;
        }
        if completed {
            return Verdict::Good { units: 1 };
        }
        match answers::claimed_task(&answer.body, &mut self.held) {
            Some(()) => {
                self.holds = true;
                Verdict::Good { units: 0 }
            }
            None => Verdict::Exhausted,
        }
    }
}

fn address(server: SocketAddr) -> String {
    format!("http://{server}{INVOKE}")
}

fn b64(bytes: &[u8]) -> String {
    Jwk::of_hex(&to_hex(bytes)).map_or(String::new(), |it| it.x)
}

fn asked(hub: &Hub, path: &str, body: &Value) -> anyhow::Result<Value> {
    let (status, answer) = hub.post(path, body)?;
    let told = String::from_utf8_lossy(&answer);
    ensure!(matches!(status, 200 | 201), "{path}: {status} {told}");
    Ok(serde_json::from_slice(&answer)?)
}
