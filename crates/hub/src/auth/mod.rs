//! Who calls: a signed agent, a token's bearer, or, where nothing is asked for, the steward.
//!
//! What a signature covers and how keys are derived is `switchboard_wire::signature`; what a caller may do is
//! [`Caller`]. A signature that asked for a change is kept in the ledger, whether the rules let the change pass or not; here
//! is only a quick memory in front of it.

mod caller;
mod external;
mod follow;
mod hello;
mod keys;
mod node;
mod replay;
pub mod table;
mod token;
mod vigil;

use std::net::SocketAddr;

use parking_lot::{Mutex, RwLock};
use switchboard_core::changes::Nonce;
use switchboard_core::rights::Right;
use switchboard_core::token::Token;
use switchboard_core::{AgentId, Timestamp, limits};
use switchboard_wire::IsoTime;
use switchboard_wire::jetpack::{Envelope, from_wire};
use switchboard_wire::signature::{AgentKey, MasterKey, SignedRequest, body_to_sign, same};

use tokio::sync::watch;

use crate::call::Failure;
use crate::config::AuthMode;
use crate::hub::Hub;

use caller::refusal;
pub use caller::{Caller, Principal, Proof};
use external::{AccessKeys, has_session};
pub use external::{Shown, is_from, proven};
pub use follow::follow;
use keys::KeyCache;
pub use replay::Mark;
use replay::Replays;
use token::TokenCache;
pub use token::hash as token_hash;
pub use vigil::Vigil;

/// How far a signature's time may lie from the wall clock's, in either direction.
const WINDOW_MS: i64 = 5 * 60 * 1000;

const AUTHORIZATION: &str = "authorization";
const AGENT: &str = "switchboard-agent";
const TIMESTAMP: &str = "switchboard-timestamp";
const NONCE: &str = "switchboard-nonce";
const SIGNATURE: &str = "switchboard-signature";

/// Knows every caller.
#[derive(Debug)]
pub struct Auth {
    mode: AuthMode,
    /// Replaced while the hub runs, but seldom.
    master: RwLock<MasterKey>,
    /// How often it was.
    replaced: watch::Sender<u64>,
    keys: Mutex<KeyCache>,
    tokens: Mutex<TokenCache>,
    replays: Mutex<Replays>,
    access: Mutex<AccessKeys>,
}

/// What a call brings along to show who sent it.
#[derive(Clone, Copy)]
pub struct Evidence<'a> {
    pub method: &'a str,
    /// As sent: path and query.
    pub target: &'a str,
    pub beside: &'a dyn Beside,
    pub body: &'a [u8],
    /// Around one of the ten operations, which may be signed in the body; nothing else may.
    pub envelope: Option<&'a Envelope>,
}

/// What comes along beside a body, by name: the headers of HTTP, or what another door has in their place.
pub trait Beside: Sync {
    fn named(&self, name: &str) -> Option<&[u8]>;
}

/// Who signed, and whether that was a short while ago.
pub struct Signer {
    pub caller: Caller,
    pub timely: Result<(), Failure>,
}

/// A claim to be an agent, not yet checked.
struct Signed<'a> {
    agent: AgentId,
    timestamp: &'a str,
    signature: &'a str,
    text: String,
}

fn said_at(timestamp: &str) -> Result<IsoTime, Failure> {
    timestamp.parse::<IsoTime>().map_err(|error| {
        Failure::Unauthenticated(format!("the signature's timestamp cannot be read: {error}"))
    })
}

fn is_timely(said: IsoTime, now: Timestamp) -> Result<(), Failure> {
    if said.0.abs_diff(now.0) <= WINDOW_MS.unsigned_abs() {
        return Ok(());
    }
    Err(Failure::Unauthenticated(format!(
        "the signature's timestamp {said} is more than 5 minutes from the hub's time {}; set the clock or sign again",
        IsoTime::from(now)
    )))
}

impl Auth {
    pub fn new(mode: AuthMode, master: MasterKey) -> Self {
        Auth {
            mode,
            keys: Mutex::default(),
            tokens: Mutex::new(TokenCache::of(&master)),
            master: RwLock::new(master),
            replaced: watch::Sender::new(0),
            replays: Mutex::default(),
            access: Mutex::default(),
        }
    }

    /// Another master key holds from now on. Keys and tokens made from the one before have ended.
    pub fn replace(&self, master: MasterKey) {
        let tokens = TokenCache::of(&master);
        *self.master.write() = master;
        *self.tokens.lock() = tokens;
        *self.keys.lock() = KeyCache::default();
        *self.access.lock() = AccessKeys::default();
        self.replaced.send_modify(|times| *times += 1);
    }

    /// Tells when another master key holds.
    pub fn replacements(&self) -> watch::Receiver<u64> {
        self.replaced.subscribe()
    }

    /// What shows that this hub has the master key.
    pub fn proof(&self, nonce: &str, called: SocketAddr) -> String {
        self.master.read().proof(nonce, called)
    }

    /// Who sent this; a signature counts once.
    pub async fn caller(&self, hub: &Hub, evidence: Evidence<'_>) -> Result<Caller, Failure> {
        match self.mode {
            AuthMode::None => Ok(Caller::steward()),
            AuthMode::Hmac => self.proven(hub, evidence).await,
        }
    }

    /// Who calls, as far as the headers alone say it: a signature there covers the body too.
    pub async fn by_header(
        &self,
        hub: &Hub,
        headers: &dyn Beside,
    ) -> Result<Option<Caller>, Failure> {
        match (self.mode, headers.named(AUTHORIZATION)) {
            // Where nothing is asked for, a node still says which one it is.
            (AuthMode::None, Some(given)) if node::is_ticket(given) => {
                self.bearer(hub, given).await.map(Some)
            }
            (AuthMode::Hmac, Some(given)) => self.bearer(hub, given).await.map(Some),
            (AuthMode::Hmac, None) | (AuthMode::None, _) => Ok(None),
        }
    }

    /// The hub could not, or not now: the same call may come again under the same signature.
    pub fn forgive(&self, mark: Mark) {
        self.replays.lock().forgive(mark);
    }

    /// The token for SQL that a call brings, and as whom. It has to, also where nothing else is asked for.
    pub async fn sql_token(
        &self,
        hub: &Hub,
        known: Option<&Caller>,
        headers: &dyn Beside,
    ) -> Result<(String, Right), Failure> {
        let caller = match (known, headers.named(AUTHORIZATION)) {
            (Some(known), _) => known.clone(),
            (None, Some(given)) => self.bearer(hub, given).await?,
            (None, None) => return Err(Failure::Unauthenticated(refusal(Right::Sql).to_owned())),
        };
        let right = caller.may_send_sql()?;
        Ok((caller.name().to_owned(), right))
    }

    /// Whether a caller would still be let in: its token not revoked, its key not replaced. The ledger itself is asked.
    pub async fn still_knows(&self, hub: &Hub, caller: &Caller) -> Result<bool, crate::hub::Error> {
        match (&caller.proof, caller.is_agent()) {
            (Proof::Key(key), Some(agent)) => {
                Ok(self.key_in_ledger(hub, agent).await?.as_ref() == Some(key))
            }
            (Proof::Token(hash), _) => Ok(self.tokens.lock().is_stewards(hash)
                || self.token_in_ledger(hub, *hash).await?.is_some()),
            (Proof::Ticket, _) => self.is_joined(hub, caller).await,
            (Proof::Session(session), _) => has_session(hub, session).await,
            (Proof::Lasting, None) => Ok(true),
            (Proof::Key(_), None) | (Proof::Lasting, Some(_)) => Ok(false),
        }
    }

    /// Whether each operation of a batch may bring a signature of its own.
    pub fn is_asked_for(&self) -> bool {
        self.mode == AuthMode::Hmac
    }

    /// The signing key of an agent, to be shown once.
    pub fn agent_key(&self, agent: &AgentId, generation: u32) -> AgentKey {
        let master = self.master.read();
        master.agent_key(agent.as_str(), generation.into())
    }

    /// The secret of a token; it follows from the master key, so that only its hash need be kept.
    pub fn token_secret(&self, id: &switchboard_core::TokenId) -> String {
        token::key(&self.master.read(), id).as_token()
    }

    /// Whether a token still counts: not revoked, and made from the master key that holds.
    pub fn is_valid(&self, token: &Token) -> bool {
        token.revoked_at.is_none() && same(&token::hash(self.token_secret(&token.id)), &token.hash)
    }

    /// A key was replaced: what is remembered of the old one no longer counts.
    pub fn forget_key(&self, agent: &AgentId) {
        self.keys.lock().forget(agent);
    }

    pub fn forget_tokens(&self) {
        self.tokens.lock().clear();
    }

    async fn proven(&self, hub: &Hub, evidence: Evidence<'_>) -> Result<Caller, Failure> {
        if let Some(given) = evidence.beside.named(AUTHORIZATION) {
            return self.bearer(hub, given).await;
        }
        let Some(signed) = signed(&evidence)? else {
            return Err(Failure::Unauthenticated(
                "sign the call as an agent (in its headers; for the ten operations also in its body), or send a token in Authorization: Bearer".to_owned(),
            ));
        };
        let said = said_at(signed.timestamp)?;
        is_timely(said, hub.wall())?;
        let (agent, nonce, key) = self.verified(hub, signed, said).await?;
        let Some(mark) = self.replays.lock().first_time(&nonce, hub.time()) else {
            return Err(Failure::Hub(crate::hub::Error::Refused(
                switchboard_core::Refusal::Replayed,
            )));
        };
        let mut caller = Caller::agent(agent, nonce, key);
        caller.mark = Some(mark);
        Ok(caller)
    }

    /// Who signed a message that stays where it is after it was read, and may have been acted on before.
    ///
    /// It is the same however often it is read; only what it changes must not happen twice, and must happen in time.
    pub async fn signer(
        &self,
        hub: &Hub,
        body: &[u8],
        envelope: &Envelope,
    ) -> Result<Signer, Failure> {
        match self.mode {
            AuthMode::None => {
                return Ok(Signer {
                    caller: Caller::steward(),
                    timely: Ok(()),
                });
            }
            AuthMode::Hmac => {}
        }
        let Some(signed) = signed_in_body(body, envelope)? else {
            return Err(Failure::Unauthenticated(
                "sign it as an agent, with agentId, timestamp and signature in the request itself"
                    .to_owned(),
            ));
        };
        let said = said_at(signed.timestamp)?;
        let timely = is_timely(said, hub.wall());
        let (agent, nonce, key) = self.verified(hub, signed, said).await?;
        Ok(Signer {
            caller: Caller::agent(agent, nonce, key),
            timely,
        })
    }

    /// The signature is that agent's.
    async fn verified(
        &self,
        hub: &Hub,
        signed: Signed<'_>,
        said: IsoTime,
    ) -> Result<(AgentId, Nonce, AgentKey), Failure> {
        let key = self.key(hub, &signed.agent).await?;
        let key = key.filter(|key| key.verify(&signed.text, signed.signature));
        let key = key.ok_or_else(|| {
            Failure::Unauthenticated(format!(
                "the signature is not valid for agent {}",
                signed.agent
            ))
        })?;
        let nonce = nonce(hub, signed.agent.clone(), signed.signature, said);
        Ok((signed.agent, nonce, key))
    }

    async fn bearer(&self, hub: &Hub, given: &[u8]) -> Result<Caller, Failure> {
        let unknown = || Failure::Unauthenticated("the token is unknown or was revoked".to_owned());
        let secret = given.strip_prefix(b"Bearer ").ok_or_else(|| {
            Failure::Unauthenticated("Authorization must be \"Bearer <token>\"".to_owned())
        })?;
        if node::is_ticket(given) {
            return self.by_ticket(hub, secret.trim_ascii()).await;
        }
        let hash = token::hash(secret.trim_ascii());
        let known = {
            let tokens = self.tokens.lock();
            if tokens.is_stewards(&hash) {
                return Ok(Caller::local_steward(hash));
            }
            tokens.get(&hash)
        };
        if let Some(known) = known {
            return Ok(Caller::bearer(&known));
        }
        let found = self.token_in_ledger(hub, hash).await?;
        let token = found.ok_or_else(unknown)?;
        let caller = Caller::bearer(&token);
        self.tokens.lock().put(token);
        Ok(caller)
    }

    /// Who brought a token that counted when the ledger was last asked, however long ago: for what is of use while it
    /// cannot be asked.
    pub fn remembered(&self, headers: &dyn Beside) -> Option<Caller> {
        let secret = headers.named(AUTHORIZATION)?;
        let hash = token::hash(secret.strip_prefix(b"Bearer ")?.trim_ascii());
        let tokens = self.tokens.lock();
        tokens.remembered(&hash).map(Caller::bearer)
    }

    /// The token of this secret, unless it has ended.
    async fn token_in_ledger(
        &self,
        hub: &Hub,
        hash: [u8; 32],
    ) -> Result<Option<Token>, crate::hub::Error> {
        let found = hub.read(move |reader| reader.token_by_hash(&hash)).await?;
        Ok(found.filter(|token| self.is_valid(token)))
    }

    async fn key(&self, hub: &Hub, agent: &AgentId) -> Result<Option<AgentKey>, Failure> {
        if let Some(known) = self.keys.lock().get(agent) {
            return Ok(Some(known));
        }
        let found = self.key_in_ledger(hub, agent).await?;
        if let Some(key) = &found {
            self.keys.lock().put(agent.clone(), key.clone());
        }
        Ok(found)
    }

    async fn key_in_ledger(
        &self,
        hub: &Hub,
        agent: &AgentId,
    ) -> Result<Option<AgentKey>, crate::hub::Error> {
        let wanted = agent.clone();
        let found = hub.read(move |reader| reader.agent(&wanted)).await?;
        // Generation 0: no key was ever made for it.
        let generation = found
            .map(|agent| agent.key_generation)
            .filter(|generation| *generation > 0);
        Ok(generation.map(|generation| self.agent_key(agent, generation)))
    }
}

/// What is kept of a signature for as long as it could come again.
fn nonce(hub: &Hub, agent: AgentId, signature: &str, said: IsoTime) -> Nonce {
    // The wall clock judges the signature, the ledger's forgets it, and may be the faster one meanwhile.
    let left_ms = said.0.saturating_add(WINDOW_MS) - hub.wall().0;
    let kept_ms = left_ms.saturating_add(left_ms.max(0) / limits::CLOCK_SLEW);
    Nonce {
        agent,
        value: signature.to_ascii_lowercase().into(),
        valid_until: Timestamp(hub.time().0.saturating_add(kept_ms)),
    }
}

/// The signature of a call, in its headers or in its body.
fn signed<'a>(evidence: &Evidence<'a>) -> Result<Option<Signed<'a>>, Failure> {
    let header = |name: &str| {
        let value = evidence.beside.named(name)?;
        str::from_utf8(value).ok().filter(|text| text.is_ascii())
    };
    if let Some(signature) = header(SIGNATURE) {
        let agent = header(AGENT).ok_or_else(|| missing("the header Switchboard-Agent"))?;
        let timestamp =
            header(TIMESTAMP).ok_or_else(|| missing("the header Switchboard-Timestamp"))?;
        let request = SignedRequest {
            method: evidence.method,
            path_and_query: evidence.target,
            timestamp,
            nonce: header(NONCE),
            body: evidence.body,
        };
        let agent = signer("Switchboard-Agent", agent)?;
        return Ok(Some(Signed {
            agent,
            timestamp,
            signature,
            text: request.to_sign(),
        }));
    }
    match evidence.envelope {
        Some(envelope) => signed_in_body(evidence.body, envelope),
        None => Ok(None),
    }
}

fn signer(field: &str, agent: &str) -> Result<AgentId, Failure> {
    let agent = from_wire::agent_id(field, agent);
    agent.map_err(|malformed| Failure::Unauthenticated(malformed.to_string()))
}

fn missing(what: &str) -> Failure {
    Failure::Unauthenticated(format!("a signature requires {what}"))
}

fn signed_in_body<'a>(body: &[u8], envelope: &'a Envelope) -> Result<Option<Signed<'a>>, Failure> {
    let Some(signature) = envelope.signature.as_deref() else {
        return Ok(None);
    };
    let agent = envelope
        .agent_id
        .as_deref()
        .ok_or_else(|| missing("agentId beside it"))?;
    let timestamp = envelope
        .timestamp
        .as_deref()
        .ok_or_else(|| missing("timestamp beside it"))?;
    let agent = signer("agentId", agent)?;
    Ok(Some(Signed {
        agent,
        timestamp,
        signature,
        text: body_to_sign(body)?,
    }))
}
