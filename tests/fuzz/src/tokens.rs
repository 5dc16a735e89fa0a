//! Tokens, keys, times and names, as somebody may write them.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use switchboard_core::{AgentId, limits};
use switchboard_wire::IsoTime;
use switchboard_wire::agentbus::message::Credential;
use switchboard_wire::jetpack::from_wire;
use switchboard_wire::redact;
use switchboard_wire::runtime::jose::{Called, Claims, Proof, RefreshToken, TokenKey};
use switchboard_wire::runtime::{self, Invite, Ticket};
use switchboard_wire::signature::{AgentKey, MasterKey, from_hex, to_hex};

pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let digits = from_hex(&text);
    if let Some(read) = &digits {
        assert_eq!(to_hex(read), text.to_ascii_lowercase());
    }
    key(
        AgentKey::from_text(&text),
        AgentKey::to_text,
        AgentKey::from_text,
    );
    key(
        AgentKey::of_token(&text),
        AgentKey::as_token,
        AgentKey::of_token,
    );
    match Credential::from_text(&text) {
        Some(Credential::Token(key)) => assert_eq!(Some(key), AgentKey::of_token(&text)),
        Some(Credential::Key(key)) => assert_eq!(Some(key), AgentKey::from_text(&text)),
        None => assert!(AgentKey::from_text(&text).is_none()),
    }
    if let Some(master) = MasterKey::from_hex(&text) {
        assert!(!format!("{master:?}").contains(text.trim()));
        let called = SocketAddr::from((Ipv4Addr::LOCALHOST, 7373));
        let words = master.proof(&text, called);
        assert!(master.is_proof(&text, called, &words));
        assert!(!MasterKey::new([0x5a; 32]).is_proof(&text, called, &words));
    }
    if let Ok(time) = text.parse::<IsoTime>() {
        assert_eq!(time.to_string().parse(), Ok(time));
    }
    if let Ok(invite) = text.parse::<Invite>() {
        assert_eq!(invite.to_string(), text.trim());
    }
    let seal = MasterKey::new([0x5a; 32]).ticket_key();
    assert_eq!(Ticket::open(&seal, &text), None, "nobody sealed it");
    if let Some(refresh) = RefreshToken::read(&text) {
        assert_eq!(refresh.to_string(), text);
    }
    let none: Option<Arc<TokenKey>> = None;
    assert!(
        Claims::open(&text, "node", |_| none).is_err(),
        "nobody sealed it"
    );
    let called = Called {
        method: "POST",
        host: "hub.example",
        path: "/",
        tls: false,
        token: None,
    };
    if let Ok(proof) = Proof::read(&text, called) {
        assert!(!proof.jti.is_empty() && proof.thumbprint.len() == 43);
    }
    if let Ok(endpoint) = runtime::from_wire::endpoint("endpoint", &text) {
        let again = runtime::from_wire::endpoint("endpoint", &endpoint);
        assert_eq!(again.as_deref(), Ok(&*endpoint));
    }
    if let Ok(id) = from_wire::agent_id("agentId", &text) {
        assert_eq!(id, AgentId::from(&*text));
        assert!(text.len() <= limits::ID_BYTES_MAX && !text.contains(char::is_whitespace));
    }
}

/// What is accepted prints and reads back the same, is known for a secret, and is not told by accident.
fn key(
    read: Option<AgentKey>,
    print: impl Fn(&AgentKey) -> String,
    again: impl Fn(&str) -> Option<AgentKey>,
) {
    let Some(key) = read else { return };
    let shown = print(&key);
    assert_eq!(again(&shown).as_ref(), Some(&key));
    assert!(redact::holds_token(&shown), "{shown}");
    assert!(!redact::text(&format!("it is {shown}.")).contains(&shown));
    assert!(!format!("{key:?}").contains(&shown[4..]));
}
