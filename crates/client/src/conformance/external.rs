//! An agent that lives elsewhere: invited, admitted, robbed, copied; and whether what it did can be told afterwards.
//!
//! It makes five calls to the hub's authentication. What a hub remembers across its own restart is not to be seen here.

use std::fmt;
use std::sync::Arc;

use reqwest::Method;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde_json::{Value, json};
use switchboard_wire::runtime::proof::Signer;

use super::findings::{Stop, Told};
use super::gateway::fresh;
use super::probe::Probe;
use super::wire::{self, Answer};
use crate::client::Client;
use crate::external::{bare, introduction, proof, shown};
use crate::transport::fresh_nonce;

const EXCHANGE: &str = "/ansible/agent/auth/exchange";
const REFRESH: &str = "/ansible/agent/auth/refresh";
const INVOKE: &str = "/ansible/agent/invoke";

const POP: &str = "runtime.l3.pop_tokens";
const NONCE: &str = "runtime.l3.replay_nonce";
const JTI: &str = "runtime.l3.replay_jti";
const AUDIT: &str = "runtime.l3.audit_correlation";

pub async fn tell(probe: &Probe) -> Told {
    let (id, to) = (probe.name("outsider"), probe.hire("hears").await?);
    let invites = [
        probe.invite_agent(&id).await?,
        probe.invite_agent(&id).await?,
    ];
    let outsider = Outsider::new(&probe.client, &id)?;
    let tokens = admitted(probe, &outsider, &invites).await?;
    let thief = Outsider::new(&probe.client, &id)?;
    invoked(probe, &outsider, &thief, &tokens).await?;
    let tokens = refreshed(probe, &outsider, &thief, tokens).await?;
    audited(probe, &outsider, &tokens, &to).await
}

/// What a session is given.
struct Tokens {
    access: String,
    refresh: String,
    session: String,
}

/// Whoever has the key.
struct Outsider {
    client: Client,
    id: String,
    key: Signer,
}

impl fmt::Display for Outsider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "external agent {}", self.id)
    }
}

impl Outsider {
    fn new(client: &Client, id: &str) -> Result<Outsider, Stop> {
        let key = Signer::from_hex(&fresh_nonce());
        Ok(Outsider {
            client: Client {
                transport: Arc::new(bare(client)),
            },
            id: id.to_owned(),
            key: key.ok_or_else(|| Stop::unknown("no key was made"))?,
        })
    }

    fn proof(&self, path: &str, token: Option<&str>) -> Result<String, Stop> {
        let path = path.trim_start_matches('/');
        proof(&self.client.transport, &self.key, path, token).map_err(Stop::unknown)
    }

    async fn call(&self, path: &str, body: &Value, shown: HeaderMap) -> Result<Answer, Stop> {
        let answer = wire::show(&self.client, Method::POST, path, Some(body), shown).await?;
        answer.found()
    }

    /// Whatever is secret of the call and of its answer is in no report.
    async fn ask(
        &self,
        path: &str,
        body: &Value,
        shown: HeaderMap,
    ) -> Result<(Answer, Tokens), Stop> {
        let mut answer = self.call(path, body, shown).await?;
        answer.sent = format!("POST {path} as {self}, nonce {}", body["nonce"]);
        let mut take = |name: &str| match answer.body.get_mut(name).map(Value::take) {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        let tokens = Tokens {
            access: take("accessToken"),
            refresh: take("refreshToken"),
            session: answer.text("sessionId").to_owned(),
        };
        Ok((answer, tokens))
    }

    async fn exchange(&self, invite: &str, nonce: &str) -> Result<(Answer, Tokens), Stop> {
        let body = introduction(&self.key, &self.id, invite, nonce).map_err(Stop::unknown)?;
        let body = serde_json::to_value(body).map_err(Stop::unknown)?;
        self.ask(EXCHANGE, &body, HeaderMap::new()).await
    }

    async fn refresh(&self, token: &str, proof: &str) -> Result<(Answer, Tokens), Stop> {
        let body = json!({ "refreshToken": token, "nonce": fresh("n") });
        let shown = shown(proof, None).map_err(Stop::unknown)?;
        self.ask(REFRESH, &body, shown).await
    }

    async fn invoke(
        &self,
        token: &str,
        proof: &str,
        (operation, args): (&str, &Value),
        nonce: &str,
    ) -> Result<Answer, Stop> {
        let body = json!({ "operation": operation, "args": args, "nonce": nonce });
        let authorization = format!("DPoP {token}");
        let shown = shown(proof, Some(&authorization)).map_err(Stop::unknown)?;
        self.call(INVOKE, &body, shown).await
    }
}

/// Exchanges an invite; the nonce of that is worth nothing with another one.
async fn admitted(
    probe: &Probe,
    outsider: &Outsider,
    [one, two]: &[String; 2],
) -> Result<Tokens, Stop> {
    let nonce = fresh("n");
    let (answer, tokens) = outsider.exchange(one, &nonce).await?;
    answer.expect(200)?;
    let (again, _) = outsider.exchange(two, &nonce).await?;
    refuses_replay(probe, NONCE, &again, "the nonce of another exchange");
    Ok(tokens)
}

/// A token works with the key that it is bound to, and each proof and nonce once.
async fn invoked(probe: &Probe, outsider: &Outsider, thief: &Outsider, tokens: &Tokens) -> Told {
    let (access, status) = (&tokens.access, ("ansible_status", &json!({})));
    let (proof, nonce) = (outsider.proof(INVOKE, Some(access))?, fresh("n"));
    let honest = outsider.invoke(access, &proof, status, &nonce).await?;
    let expected = "200: the token, and a proof of its key";
    let works = honest.status == 200;
    probe.findings.answered(POP, works, &honest, expected);
    honest.expect(200)?;

    let theirs = thief.proof(INVOKE, Some(access))?;
    let stolen = thief.invoke(access, &theirs, status, &fresh("n")).await?;
    refuses_thief(probe, &stolen, "a proof by another key");
    let body = json!({ "operation": status.0, "args": {}, "nonce": fresh("n") });
    for word in ["DPoP", "Bearer"] {
        let token = HeaderValue::from_str(&format!("{word} {access}")).map_err(Stop::unknown)?;
        let shown = HeaderMap::from_iter([(AUTHORIZATION, token)]);
        let bare = thief.call(INVOKE, &body, shown).await?;
        refuses_thief(probe, &bare, "no proof");
    }

    let another = outsider.proof(INVOKE, Some(access))?;
    let again = outsider.invoke(access, &another, status, &nonce).await?;
    refuses_replay(probe, NONCE, &again, "the nonce of another call");
    let again = outsider.invoke(access, &proof, status, &fresh("n")).await?;
    refuses_replay(probe, JTI, &again, "the proof of another call");
    Ok(())
}

/// The same of a refresh token, which is another one after each use.
async fn refreshed(
    probe: &Probe,
    outsider: &Outsider,
    thief: &Outsider,
    tokens: Tokens,
) -> Result<Tokens, Stop> {
    let theirs = thief.proof(REFRESH, None)?;
    let (stolen, _) = thief.refresh(&tokens.refresh, &theirs).await?;
    refuses_thief(
        probe,
        &stolen,
        "a refresh token with a proof by another key",
    );
    let proof = outsider.proof(REFRESH, None)?;
    let (answer, next) = outsider.refresh(&tokens.refresh, &proof).await?;
    answer.expect(200)?;
    let (again, _) = outsider.refresh(&next.refresh, &proof).await?;
    refuses_replay(probe, JTI, &again, "the proof of another refresh");
    Ok(next)
}

/// What it did is found by what it was about and by the session that it was done in.
async fn audited(probe: &Probe, outsider: &Outsider, tokens: &Tokens, to: &str) -> Told {
    let corr = fresh("corr");
    let args = json!({ "toAgents": [to], "subject": "conformance", "body": "from outside", "corrId": corr });
    let proof = outsider.proof(INVOKE, Some(&tokens.access))?;
    let said = ("ansible_send_message", &args);
    let answer = outsider
        .invoke(&tokens.access, &proof, said, &fresh("n"))
        .await?;
    let answer = answer.expect(200)?;
    let look = async || {
        let by = async |name: &str, value: &str| {
            let path = format!("/runtime/v1/audit?{name}={value}");
            let answer = probe.main.call(Method::GET, &path, None).await?;
            Ok::<_, Stop>(answer.expect(200)?.body["entries"].take())
        };
        let (by_corr, by_session) = (
            by("corrId", &corr).await?,
            by("sessionId", &tokens.session).await?,
        );
        Ok(json!({ "byCorrId": by_corr, "bySessionId": by_session }))
    };
    let is_told = |seen: &Value| {
        let [by_corr, by_session] = ["byCorrId", "bySessionId"].map(|name| entries(&seen[name]));
        let session = |entry: &Value| entry["sessionId"] == *tokens.session;
        let about = |entry: &Value| entry["corrId"] == *corr;
        let exchanged = |entry: &Value| entry["operation"] == "exchange";
        by_corr.iter().any(session)
            && by_corr.iter().all(about)
            && by_session.iter().any(about)
            && by_session.iter().any(exchanged)
            && by_session.iter().all(session)
    };
    let (holds, seen) = probe.eventually(look, is_told).await?;
    let expected = format!(
        "the message among the entries of corrId {corr}, and it and the exchange among those of sessionId {}",
        tokens.session
    );
    probe
        .findings
        .judge(AUDIT, holds, &answer.sent, seen, expected);
    Ok(())
}

fn entries(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

fn refuses_thief(probe: &Probe, answer: &Answer, with: &str) {
    let expected = format!("401 for {with}");
    probe
        .findings
        .answered(POP, answer.status == 401, answer, expected);
}

fn refuses_replay(probe: &Probe, clause: &'static str, answer: &Answer, what: &str) {
    let holds = answer.status == 409 && answer.code() == "replay_detected";
    let expected = format!("409 replay_detected for {what}");
    probe.findings.answered(clause, holds, answer, expected);
}
