//! External agents: known by access tokens that any coordinator of this ledger made, with a proof of the key they are
//! bound to. Whether the session still holds is asked in the commit of what it allows.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use switchboard_core::changes::Nonce;
use switchboard_core::external::{self, ExternalSession};
use switchboard_core::refusal::Denied;
use switchboard_core::{Timestamp, limits};
use switchboard_wire::runtime::jose::{
    AUDIENCE, Called, Claims, Confirmation, PERIOD_SECONDS, Proof, RefreshToken, TokenKey,
};
use switchboard_wire::signature::same;

use super::Auth;
use crate::config::Network;
use crate::hub::{self, Hub};

/// So many tokens are known again by their text: their signatures are not verified at each call.
const OPENED_MAX: usize = 1024;

#[derive(Debug, Default)]
pub struct AccessKeys {
    /// Of a few periods, made when they are needed.
    keys: HashMap<i64, Arc<TokenKey>>,
    /// What these keys signed, as far as it was shown.
    opened: HashMap<String, Claims>,
}

/// What an external agent showed: a token, and that it has the key.
pub struct Shown {
    pub claims: Claims,
    /// The proof, which counts once.
    pub proof: Nonce,
}

impl Shown {
    /// Whether whoever shows it has the key that it is bound to.
    pub fn by(
        hub: &Hub,
        (claims, token): (Claims, &str),
        proof: Option<&str>,
        called: Called<'_>,
    ) -> Result<Shown, Denied> {
        let called = Called {
            token: Some(token),
            ..called
        };
        let (thumbprint, proof) = proven(hub, proof, called)?;
        #[cfg(debug_assertions)]
        let thumbprint = match crate::runtime::broken::is("pop_tokens") {
            true => claims.cnf.jkt.clone(),
            false => thumbprint,
        };
        if !same(thumbprint.as_bytes(), claims.cnf.jkt.as_bytes()) {
            let why = "it was signed by another key than the one that the token is bound to";
            return Err(Denied::Proof(why));
        }
        Ok(Shown { claims, proof })
    }

    pub fn expires_at(&self) -> Timestamp {
        Timestamp(self.claims.exp.saturating_mul(1000))
    }
}

impl Auth {
    /// What the token of a call says, if it counts as far as that can be told without the ledger.
    pub fn opened<'a>(
        &self,
        hub: &Hub,
        node: &str,
        authorization: Option<&'a str>,
    ) -> Result<(Claims, &'a str), Denied> {
        let token = authorization.and_then(|given| given.strip_prefix("DPoP "));
        let token = token.ok_or(Denied::AccessToken)?.trim();
        let now = hub.time();
        let known = self.access.lock().opened.get(token).cloned();
        let claims = match known {
            Some(claims) => claims,
            None => self.open_anew(token, node, now)?,
        };
        match claims.exp.saturating_mul(1000) <= now.0 {
            true => Err(Denied::ExpiredAccess(Timestamp(claims.exp * 1000))),
            false => Ok((claims, token)),
        }
    }

    fn open_anew(&self, token: &str, node: &str, now: Timestamp) -> Result<Claims, Denied> {
        let mut by = None;
        let claims = Claims::open(token, node, |kid| {
            let period = TokenKey::period(kid)?;
            let key = self.access_key(period, now)?;
            by = Some((period, Arc::clone(&key)));
            Some(key)
        })?;
        let mut access = self.access.lock();
        // Another master key may hold by now.
        let counts = |(period, key): (i64, Arc<TokenKey>)| {
            let held = access.keys.get(&period);
            held.is_some_and(|held| Arc::ptr_eq(held, &key))
        };
        if by.is_some_and(counts) {
            if access.opened.len() >= OPENED_MAX {
                access.opened.clear();
            }
            access.opened.insert(token.to_owned(), claims.clone());
        }
        Ok(claims)
    }

    /// An access token of a session, for a context or for all.
    pub fn access_token(
        &self,
        session: &ExternalSession,
        jti: String,
        node: &str,
        now: Timestamp,
    ) -> Result<String, hub::Error> {
        let scopes = session.scopes.iter().map(|scope| scope.as_str());
        let claims = Claims {
            iss: node.to_owned(),
            sub: session.agent.to_string(),
            aud: AUDIENCE.to_owned(),
            scope: scopes.collect::<Vec<_>>().join(" "),
            session_id: session.id.clone(),
            jti,
            iat: now.0.div_euclid(1000),
            exp: session.access_until.0.div_euclid(1000),
            cnf: Confirmation {
                jkt: session.thumbprint.clone(),
            },
            ctx: None,
            org: session.constraints.origins.clone(),
        };
        self.sealed(&claims)
    }

    /// Signs it with the key of its time.
    pub fn sealed(&self, claims: &Claims) -> Result<String, hub::Error> {
        let period = claims.iat.div_euclid(PERIOD_SECONDS);
        let key = self.key_of(period).ok_or(hub::Error::Broken)?;
        claims.seal(&key).ok_or(hub::Error::Broken)
    }

    /// One of a session's family; nothing but its place is needed to make it again.
    pub fn refresh_token(&self, session: &str, turn: u32) -> RefreshToken {
        RefreshToken {
            session: session.to_owned(),
            turn,
            secret: self.master.read().refresh_secret(session, turn),
        }
    }

    /// Reads one that this hub made.
    pub fn refresh_shown(&self, text: &str) -> Result<RefreshToken, Denied> {
        let shown = RefreshToken::read(text).ok_or(Denied::RefreshToken)?;
        let made = self.refresh_token(&shown.session, shown.turn);
        match same(shown.secret.as_bytes(), made.secret.as_bytes()) {
            true => Ok(shown),
            false => Err(Denied::RefreshToken),
        }
    }

    /// The key of a period, if anything that it signed can still count.
    fn access_key(&self, period: i64, now: Timestamp) -> Option<Arc<TokenKey>> {
        let current = now.0.div_euclid(1000 * PERIOD_SECONDS);
        // Another coordinator may be a moment ahead.
        (current - 1..=current + 1)
            .contains(&period)
            .then_some(())?;
        self.key_of(period)
    }

    fn key_of(&self, period: i64) -> Option<Arc<TokenKey>> {
        if let Some(known) = self.access.lock().keys.get(&period) {
            return Some(Arc::clone(known));
        }
        let key = Arc::new(TokenKey::new(
            &self.master.read().access_seed(period),
            period,
        )?);
        let keys = &mut self.access.lock().keys;
        keys.retain(|known, _| known.abs_diff(period) <= 2);
        keys.insert(period, Arc::clone(&key));
        Some(key)
    }
}

/// Who signed the proof of a call, and what is to be remembered of it.
pub fn proven(
    hub: &Hub,
    proof: Option<&str>,
    called: Called<'_>,
) -> Result<(String, Nonce), Denied> {
    let missing = "the header DPoP is missing, or is there more than once";
    let proof = Proof::read(proof.ok_or(Denied::Proof(missing))?, called)?;
    let window = limits::PROOF_WINDOW.as_secs_f64();
    let wall = hub.wall();
    let age = wall.0 as f64 / 1000.0 - proof.iat;
    if !(-window..=window).contains(&age) {
        let why = "its iat is more than 60 s from the hub's time; set the clock, and make a proof for each call";
        return Err(Denied::Proof(why));
    }
    // The wall clock judges it, the ledger's forgets it, and may be the faster one meanwhile.
    let left_ms = ((window - age) * 1000.0).ceil() as i64;
    let kept_ms = left_ms + left_ms / limits::CLOCK_SLEW;
    let until = Timestamp(hub.time().0.saturating_add(kept_ms));
    #[cfg(debug_assertions)]
    let proof = Proof {
        jti: crate::runtime::broken::once("replay_jti", &proof.jti),
        ..proof
    };
    let nonce = external::used_once(&proof.thumbprint, &proof.jti, until);
    Ok((proof.thumbprint, nonce))
}

/// Whether a call may come from there.
pub fn is_from(origins: &[String], ip: IpAddr) -> bool {
    let mut networks = origins
        .iter()
        .filter_map(|text| text.parse::<Network>().ok());
    origins.is_empty() || networks.any(|network| network.contains(ip))
}

pub async fn has_session(hub: &Hub, session: &str) -> Result<bool, hub::Error> {
    let id = session.to_owned();
    let now = hub.time();
    let found = hub.read(move |reader| reader.external_session(&id)).await?;
    Ok(found.is_some_and(|session| session.is_live(now)))
}
