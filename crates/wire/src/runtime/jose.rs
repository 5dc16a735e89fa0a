//! Tokens of external agents and the proofs that they are shown with: JWTs by Ed25519, bound to a key by DPoP (RFC 9449).
//!
//! Signatures and shapes are checked here. Clocks, replays and what a session may do are for the hub and the rules.

use std::fmt;

use aws_lc_rs::digest;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, encode};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use switchboard_core::external::AgentScope;
use switchboard_core::limits;
use switchboard_core::refusal::Denied;

use super::proof::Signer;
use crate::signature::{from_hex, to_hex};

/// A public key of Ed25519, as RFC 8037 writes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Jwk {
    /// `OKP`.
    pub kty: String,
    /// `Ed25519`.
    pub crv: String,
    /// The key in base64url, without padding.
    pub x: String,
}

const X_BYTES: usize = 32;

impl Jwk {
    /// Of a key in hexadecimal.
    pub fn of_hex(public_key: &str) -> Option<Jwk> {
        Some(Jwk {
            kty: "OKP".to_owned(),
            crv: "Ed25519".to_owned(),
            x: BASE64.encode(from_hex(public_key)?),
        })
    }

    /// The key in hexadecimal, if it is one of Ed25519 and written in the one way.
    pub fn to_hex(&self) -> Option<String> {
        let bytes = BASE64.decode(&self.x).ok()?;
        let is_one = self.kty == "OKP" && self.crv == "Ed25519" && bytes.len() == X_BYTES;
        is_one.then(|| to_hex(&bytes))
    }

    /// RFC 7638: the hash of the members that make it up, in their order.
    pub fn thumbprint(&self) -> String {
        let Jwk { kty, crv, x } = self;
        let members = format!(r#"{{"crv":"{crv}","kty":"{kty}","x":"{x}"}}"#);
        hash(&members)
    }
}

/// SHA-256 in base64url, as `ath` and thumbprints are written.
pub fn hash(text: &str) -> String {
    BASE64.encode(digest::digest(&digest::SHA256, text.as_bytes()))
}

/// A key that this hub signs access tokens with, and how it is called.
pub struct TokenKey {
    pub kid: String,
    signs: EncodingKey,
    checks: DecodingKey,
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenKey({})", self.kid)
    }
}

impl TokenKey {
    /// Of a seed; `period` is the time in which it signs.
    pub fn new(seed: &[u8; 32], period: i64) -> Option<TokenKey> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).ok()?;
        let public = pair.public_key().as_ref();
        let mark = to_hex(&digest::digest(&digest::SHA256, public).as_ref()[..8]);
        Some(TokenKey {
            kid: format!("{period}-{mark}"),
            signs: EncodingKey::from_ed_der(pair.to_pkcs8v1().ok()?.as_ref()),
            checks: DecodingKey::from_ed_der(public),
        })
    }

    /// The period that the name of a key tells.
    pub fn period(kid: &str) -> Option<i64> {
        kid.split_once('-')?.0.parse().ok()
    }
}

/// What an access token says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// The node whose hub made it.
    pub iss: String,
    pub sub: String,
    pub aud: String,
    pub scope: String,
    #[serde(rename = "sessionId")]
    pub session_id: String,
    pub jti: String,
    pub iat: i64,
    pub exp: i64,
    pub cnf: Confirmation,
    /// The one context that it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ctx: Option<String>,
    /// Addresses and networks that it may be shown from; anywhere, if none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub org: Vec<String>,
}

/// The key that the token is bound to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmation {
    pub jkt: String,
}

/// Whom access tokens are for.
pub const AUDIENCE: &str = "ansible-agent";
const TOKEN_TYPE: &str = "at+jwt";
const PROOF_TYPE: &str = "dpop+jwt";

impl Claims {
    pub fn seal(&self, key: &TokenKey) -> Option<String> {
        let header = Header {
            typ: Some(TOKEN_TYPE.to_owned()),
            kid: Some(key.kid.clone()),
            ..Header::new(Algorithm::EdDSA)
        };
        encode(&header, self, &key.signs).ok()
    }

    /// Reads one that a key of this node sealed; `key` finds it by its name. Whether it has expired is not asked.
    pub fn open<K: AsRef<TokenKey>>(
        text: &str,
        node: &str,
        key: impl FnOnce(&str) -> Option<K>,
    ) -> Result<Claims, Denied> {
        #[derive(Deserialize)]
        struct Issuer {
            iss: String,
        }

        let header: TokenHeader = part(text, 0).ok_or(Denied::AccessToken)?;
        if header.typ != TOKEN_TYPE || header.alg != "EdDSA" || header.crit.is_some() {
            return Err(Denied::AccessToken);
        }
        let told: Issuer = part(text, 1).ok_or(Denied::AccessToken)?;
        if told.iss != node {
            return Err(Denied::OtherNode);
        }
        let key = key(&header.kid).filter(|key| key.as_ref().kid == header.kid);
        let key = key.ok_or(Denied::AccessToken)?;
        let mut validation = validation();
        validation.set_audience(&[AUDIENCE]);
        validation.set_issuer(&[node]);
        validation.set_required_spec_claims(&["iss", "aud", "sub"]);
        let read = decode::<Claims>(text, &key.as_ref().checks, &validation);
        let claims = read.map_err(|_| Denied::AccessToken)?.claims;
        // A key signs for its period, and for nothing outside of it.
        match TokenKey::period(&header.kid) == Some(claims.iat.div_euclid(PERIOD_SECONDS)) {
            true => Ok(claims),
            false => Err(Denied::AccessToken),
        }
    }

    /// Its scopes; one that this build does not know allows nothing.
    pub fn scopes(&self) -> Vec<AgentScope> {
        let words = self.scope.split(' ');
        words.filter_map(AgentScope::parse).collect()
    }
}

/// A key signs for so long; then the next one does, and what it signed is read until it ends.
pub const PERIOD_SECONDS: i64 = 7 * 24 * 3600;

#[derive(Deserialize)]
struct TokenHeader {
    typ: String,
    alg: String,
    kid: String,
    #[serde(default)]
    crit: Option<serde_json::Value>,
}

/// A proof of possession that was read: who signed, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct Proof {
    /// Of the key that signed.
    pub thumbprint: String,
    pub jti: String,
    pub iat: f64,
}

#[derive(Deserialize)]
struct ProofHeader {
    typ: String,
    alg: String,
    jwk: serde_json::Map<String, serde_json::Value>,
    #[serde(default)]
    crit: Option<serde_json::Value>,
}

/// What a proof says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProofClaims {
    pub jti: String,
    pub htm: String,
    pub htu: String,
    pub iat: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ath: Option<String>,
}

/// Signs a proof, as an agent does.
pub fn prove(key: &Signer, claims: &ProofClaims) -> Option<String> {
    let jwk = Jwk::of_hex(&key.public_key())?;
    let head = serde_json::json!({ "typ": PROOF_TYPE, "alg": "EdDSA", "jwk": jwk });
    let said = serde_json::to_string(claims).ok()?;
    let text = format!(
        "{}.{}",
        BASE64.encode(head.to_string()),
        BASE64.encode(said)
    );
    let signature = from_hex(&key.sign(&text))?;
    Some(format!("{text}.{}", BASE64.encode(signature)))
}

/// The call that a proof must be for.
#[derive(Clone, Copy, Debug)]
pub struct Called<'a> {
    pub method: &'a str,
    /// The name that it calls the hub by, port included.
    pub host: &'a str,
    pub path: &'a str,
    /// Over TLS, a proof for plain HTTP counts for nothing.
    pub tls: bool,
    /// The access token beside it.
    pub token: Option<&'a str>,
}

impl Proof {
    /// Reads the proof of a call. That it is timely, and new, is for the caller to ask.
    pub fn read(text: &str, called: Called<'_>) -> Result<Proof, Denied> {
        let wrong = |why| Err(Denied::Proof(why));
        let Some(header) = part::<ProofHeader>(text, 0) else {
            return wrong("it is no JWT with typ, alg and jwk in its header");
        };
        if header.typ != PROOF_TYPE || header.alg != "EdDSA" || header.crit.is_some() {
            return wrong("its header must have typ dpop+jwt and alg EdDSA, and no crit");
        }
        if header.jwk.contains_key("d") {
            return wrong("its header has the private key; never send it, and make another");
        }
        let jwk = serde_json::from_value::<Jwk>(header.jwk.into()).ok();
        let jwk = jwk.filter(|jwk| jwk.to_hex().is_some());
        let Some(jwk) = jwk else {
            return wrong("its jwk must be a key of kty OKP and crv Ed25519");
        };
        let key = DecodingKey::from_ed_components(&jwk.x);
        let read = key.and_then(|key| decode::<ProofClaims>(text, &key, &validation()));
        let Ok(read) = read else {
            return wrong(
                "it is not signed by the key in its header, or lacks one of jti, htm, htu and iat",
            );
        };
        let claims = read.claims;
        let fits = |byte: u8| byte.is_ascii_graphic();
        let is_id = (1..=limits::ID_BYTES_MAX).contains(&claims.jti.len());
        if !is_id || !claims.jti.bytes().all(fits) {
            return wrong("its jti must be 1 to 128 visible ASCII characters");
        }
        if claims.htm != called.method {
            return wrong("its htm is another method than the call's");
        }
        if !is_place(&claims.htu, called) {
            return wrong("its htu is another address than the call's");
        }
        if claims.ath != called.token.map(hash) {
            return wrong("its ath is not the hash of the access token beside it");
        }
        Ok(Proof {
            thumbprint: jwk.thumbprint(),
            jti: claims.jti,
            iat: claims.iat,
        })
    }
}

/// Whether an address is the call's: its name, port and path, without a query.
fn is_place(htu: &str, called: Called<'_>) -> bool {
    let Some((scheme, rest)) = htu.split_once("://") else {
        return false;
    };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let at = rest.find('/').unwrap_or(rest.len());
    let (host, path) = rest.split_at(at);
    let port = match scheme {
        "https" => ":443",
        "http" if !called.tls => ":80",
        _ => return false,
    };
    let plain = |host: &str| {
        let bare = host.strip_suffix(port).filter(|name| !name.ends_with(':'));
        bare.unwrap_or(host).to_ascii_lowercase()
    };
    path == called.path && plain(host) == plain(called.host)
}

/// Ed25519 and nothing else. Times are for the ledger's clock to judge.
fn validation() -> Validation {
    let mut validation = Validation::new(Algorithm::EdDSA);
    validation.validate_exp = false;
    validation.validate_aud = true;
    validation.required_spec_claims.clear();
    validation
}

/// One of the three parts of a token, before anything of it is believed.
fn part<T: DeserializeOwned>(text: &str, which: usize) -> Option<T> {
    if text.len() > limits::JWT_BYTES_MAX || text.split('.').count() != 3 {
        return None;
    }
    let bytes = BASE64.decode(text.split('.').nth(which)?).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// A refresh token: `sbr_`, its session, which of its family it is, and a secret that follows from both.
#[derive(Clone, PartialEq, Eq)]
pub struct RefreshToken {
    pub session: String,
    pub turn: u32,
    pub secret: String,
}

const REFRESH_PREFIX: &str = "sbr_";

impl RefreshToken {
    /// What is kept of it, in hexadecimal.
    pub fn hash(&self) -> String {
        to_hex(digest::digest(&digest::SHA256, self.to_string().as_bytes()).as_ref())
    }

    pub fn read(text: &str) -> Option<RefreshToken> {
        let rest = text.strip_prefix(REFRESH_PREFIX)?;
        let (rest, secret) = rest.rsplit_once('-')?;
        let (session, turn) = rest.rsplit_once('-')?;
        let is_plain = turn == "0" || !turn.starts_with(['0', '+']);
        let fits = session.len() <= limits::ID_BYTES_MAX && is_plain;
        Some(RefreshToken {
            session: session.to_owned(),
            turn: turn.parse().ok()?,
            secret: secret.to_owned(),
        })
        .filter(|_| fits)
    }
}

impl fmt::Display for RefreshToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RefreshToken {
            session,
            turn,
            secret,
        } = self;
        write!(f, "{REFRESH_PREFIX}{session}-{turn}-{secret}")
    }
}

impl fmt::Debug for RefreshToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RefreshToken({}.{})", self.session, self.turn)
    }
}
