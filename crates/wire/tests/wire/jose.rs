//! Tokens of external agents and proofs of possession: what is read, and all that is not.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use switchboard_core::limits;
use switchboard_core::refusal::Denied;
use switchboard_wire::runtime::Jwk;
use switchboard_wire::runtime::jose::{
    AUDIENCE, Called, Claims, Confirmation, PERIOD_SECONDS, Proof, RefreshToken, TokenKey, hash,
};
use switchboard_wire::runtime::proof::Signer;
use switchboard_wire::signature::from_hex;

fn signer(byte: u8) -> Signer {
    Signer::from_hex(&format!("{byte:02x}").repeat(32)).expect("a seed")
}

fn b64(value: &Value) -> String {
    BASE64.encode(value.to_string())
}

fn jwt(header: &Value, claims: &Value, signer: &Signer) -> String {
    let said = format!("{}.{}", b64(header), b64(claims));
    let signature = from_hex(&signer.sign(&said)).expect("hexadecimal");
    format!("{said}.{}", BASE64.encode(signature))
}

#[test]
fn a_thumbprint_is_that_of_the_rfc() {
    // RFC 8037, appendix A.3.
    let jwk = Jwk {
        kty: "OKP".to_owned(),
        crv: "Ed25519".to_owned(),
        x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo".to_owned(),
    };
    assert_eq!(
        jwk.thumbprint(),
        "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
    );
    let hex = jwk.to_hex().unwrap();
    assert_eq!(Jwk::of_hex(&hex), Some(jwk.clone()));
    type Edit = fn(&mut Jwk);
    let odd: &[Edit] = &[
        |it| it.kty = "EC".to_owned(),
        |it| it.crv = "X25519".to_owned(),
        |it| it.crv = "Ed448".to_owned(),
        |it| it.x.push('A'),
        |it| it.x = String::new(),
        |it| it.x = it.x.replace('o', "p"),
        |it| it.x = it.x.replace('_', "/"),
        |it| it.x.push('='),
    ];
    for edit in odd {
        let mut odd = jwk.clone();
        edit(&mut odd);
        assert_eq!(odd.to_hex(), None, "{odd:?}");
    }
}

const PERIOD: i64 = 2900;

fn key(byte: u8, period: i64) -> Arc<TokenKey> {
    Arc::new(TokenKey::new(&[byte; 32], period).expect("a key"))
}

fn claims() -> Claims {
    Claims {
        iss: "node-a".to_owned(),
        sub: "far".to_owned(),
        aud: AUDIENCE.to_owned(),
        scope: "ansible.task.claim ansible.nothing ansible.status.read".to_owned(),
        session_id: "ses_1".to_owned(),
        jti: "at_1".to_owned(),
        iat: PERIOD * PERIOD_SECONDS + 7,
        exp: PERIOD * PERIOD_SECONDS + 907,
        cnf: Confirmation {
            jkt: "thumb".to_owned(),
        },
        ctx: None,
        org: Vec::new(),
    }
}

fn open(text: &str, key: &Arc<TokenKey>) -> Result<Claims, Denied> {
    Claims::open(text, "node-a", |kid| {
        (TokenKey::period(kid) == TokenKey::period(&key.kid)).then(|| Arc::clone(key))
    })
}

#[test]
fn an_access_token_is_read_by_the_key_that_sealed_it_and_nothing_else_is_one() {
    let key = key(1, PERIOD);
    let token = claims().seal(&key).unwrap();
    assert_eq!(open(&token, &key), Ok(claims()));
    let words: Vec<_> = claims().scopes().iter().map(ToString::to_string).collect();
    assert_eq!(words, ["ansible.task.claim", "ansible.status.read"]);

    let parts: Vec<&str> = token.split('.').collect();
    let public = Signer::from_hex(&"01".repeat(32)).unwrap().public_key();
    let header = |edit: fn(&mut Header)| {
        let mut header = Header::new(Algorithm::HS256);
        header.typ = Some("at+jwt".to_owned());
        header.kid = Some(key.kid.clone());
        edit(&mut header);
        header
    };
    let hs256 = |secret: &[u8]| {
        let secret = EncodingKey::from_secret(secret);
        encode(&header(|_| {}), &claims(), &secret).unwrap()
    };
    let none = b64(&json!({ "typ": "at+jwt", "alg": "none", "kid": key.kid }));
    let crit = json!({ "typ": "at+jwt", "alg": "EdDSA", "kid": key.kid, "crit": ["exp"] });
    let said = serde_json::to_value(claims()).unwrap();
    let mut other = said.clone();
    other["sub"] = "thief".into();
    for (what, wrong) in [
        ("empty", String::new()),
        ("cut", token[..token.len() - 1].to_owned()),
        ("cut more", parts[..2].join(".")),
        ("four parts", format!("{token}.x")),
        (
            "forged",
            format!("{}.{}.{}", parts[0], b64(&other), parts[2]),
        ),
        (
            "oversize",
            format!("{token}{}", "A".repeat(limits::JWT_BYTES_MAX)),
        ),
        ("alg none", format!("{none}.{}.", parts[1])),
        (
            "alg none, signed",
            format!("{none}.{}.{}", parts[1], parts[2]),
        ),
        (
            "hs256 of the public key",
            hs256(&from_hex(&public).unwrap()),
        ),
        ("hs256 of its digits", hs256(public.as_bytes())),
        ("crit", jwt(&crit, &said, &signer(1))),
        (
            "another type",
            jwt(
                &json!({ "typ": "JWT", "alg": "EdDSA", "kid": key.kid }),
                &said,
                &signer(1),
            ),
        ),
    ] {
        assert_eq!(open(&wrong, &key), Err(Denied::AccessToken), "{what}");
    }
}

#[test]
fn a_token_for_somebody_else_is_none() {
    let key = key(1, PERIOD);
    let other_key = self::key(2, PERIOD);
    type Edit = fn(&mut Claims);
    let cases: &[(Edit, Denied)] = &[
        (|it| it.iss = "node-b".to_owned(), Denied::OtherNode),
        (|it| it.aud = "another".to_owned(), Denied::AccessToken),
        // A key signs for its own week alone.
        (|it| it.iat += PERIOD_SECONDS, Denied::AccessToken),
        (|it| it.iat -= 8, Denied::AccessToken),
    ];
    for (edit, why) in cases {
        let mut claims = claims();
        edit(&mut claims);
        let token = claims.seal(&key).unwrap();
        assert_eq!(open(&token, &key), Err(why.clone()), "{claims:?}");
    }
    let strange = claims().seal(&other_key).unwrap();
    assert_eq!(
        open(&strange, &key),
        Err(Denied::AccessToken),
        "unknown kid"
    );
    let older = self::key(1, PERIOD - 1);
    assert_ne!(older.kid, key.kid);
}

fn called<'a>(token: Option<&'a str>) -> Called<'a> {
    Called {
        method: "POST",
        host: "hub.example:7373",
        path: "/ansible/agent/invoke",
        tls: false,
        token,
    }
}

#[test]
fn a_proof_is_for_one_call_by_one_key() {
    let jwk = serde_json::to_value(Jwk::of_hex(&signer(1).public_key()).unwrap()).unwrap();
    let header = json!({ "typ": "dpop+jwt", "alg": "EdDSA", "jwk": jwk });
    let claims = json!({
        "jti": "j", "htm": "POST", "htu": "http://HUB.example:7373/ansible/agent/invoke?x=1#y",
        "iat": 1_760_000_000, "ath": hash("token"),
    });
    let good = jwt(&header, &claims, &signer(1));
    let read = Proof::read(&good, called(Some("token"))).unwrap();
    assert_eq!((&*read.jti, read.iat), ("j", 1_760_000_000.0));
    let own: Jwk = serde_json::from_value(jwk.clone()).unwrap();
    assert_eq!(read.thumbprint, own.thumbprint());

    type Edit = fn(&mut Value, &mut Value);
    let cases: &[(&str, Edit)] = &[
        ("typ", |head, _| head["typ"] = "JWT".into()),
        ("alg none", |head, _| head["alg"] = "none".into()),
        ("alg HS256", |head, _| head["alg"] = "HS256".into()),
        ("crit", |head, _| head["crit"] = json!(["b64"])),
        ("no key", |head, _| head["jwk"] = Value::Null),
        ("private key", |head, _| head["jwk"]["d"] = "x".into()),
        ("other curve", |head, _| head["jwk"]["crv"] = "Ed448".into()),
        (
            "EC",
            |head, _| head["jwk"] = json!({ "kty": "EC", "crv": "P-256", "x": "AA", "y": "AA" }),
        ),
        ("OKP of P-256", |head, _| {
            head["jwk"]["crv"] = "P-256".into()
        }),
        ("no jti", |_, said| said["jti"] = Value::Null),
        ("empty jti", |_, said| said["jti"] = "".into()),
        ("long jti", |_, said| said["jti"] = "j".repeat(129).into()),
        ("blank jti", |_, said| said["jti"] = "a b".into()),
        ("method", |_, said| said["htm"] = "GET".into()),
        ("method in small letters", |_, said| {
            said["htm"] = "post".into()
        }),
        ("path", |_, said| {
            said["htu"] = "http://hub.example:7373/ansible/agent/context-token".into()
        }),
        ("host", |_, said| {
            said["htu"] = "http://other.example:7373/ansible/agent/invoke".into()
        }),
        ("port", |_, said| {
            said["htu"] = "http://hub.example/ansible/agent/invoke".into()
        }),
        ("scheme", |_, said| {
            said["htu"] = "ftp://hub.example:7373/ansible/agent/invoke".into()
        }),
        ("no address", |_, said| {
            said["htu"] = "/ansible/agent/invoke".into()
        }),
        ("no iat", |_, said| said["iat"] = Value::Null),
        ("iat as text", |_, said| said["iat"] = "now".into()),
        ("no ath", |_, said| said["ath"] = Value::Null),
        ("another token", |_, said| {
            said["ath"] = hash("other").into()
        }),
    ];
    for (what, edit) in cases {
        let (mut head, mut said) = (header.clone(), claims.clone());
        edit(&mut head, &mut said);
        let read = Proof::read(&jwt(&head, &said, &signer(1)), called(Some("token")));
        assert!(matches!(read, Err(Denied::Proof(_))), "{what}: {read:?}");
    }
    let stolen = jwt(&header, &claims, &signer(2));
    for wrong in [
        &*stolen,
        "",
        "a.b",
        &good[..good.len() - 2],
        &format!("{good}.x"),
    ] {
        let read = Proof::read(wrong, called(Some("token")));
        assert!(matches!(read, Err(Denied::Proof(_))), "{wrong}");
    }
    assert!(
        Proof::read(&good, called(None)).is_err(),
        "without a token it must have no ath"
    );
    let secure = Called {
        tls: true,
        ..called(Some("token"))
    };
    assert!(
        Proof::read(&good, secure).is_err(),
        "over TLS, http counts for nothing"
    );
}

#[test]
fn a_default_port_may_be_left_out() {
    let jwk = serde_json::to_value(Jwk::of_hex(&signer(1).public_key()).unwrap()).unwrap();
    let header = json!({ "typ": "dpop+jwt", "alg": "EdDSA", "jwk": jwk });
    for (htu, host, fits) in [
        ("https://hub.example/p", "hub.example", true),
        ("https://hub.example:443/p", "hub.example", true),
        ("https://hub.example/p", "hub.example:443", true),
        ("https://hub.example/p", "hub.example:80", false),
        ("https://[::1]:443/p", "[::1]", true),
        ("https://[::1]/p", "[::2]", false),
        ("https://hub.example/p/", "hub.example", false),
        ("https://hub.example", "hub.example", false),
    ] {
        let claims = json!({ "jti": "j", "htm": "POST", "htu": htu, "iat": 1.5 });
        let called = Called {
            host,
            path: "/p",
            tls: true,
            ..called(None)
        };
        let read = Proof::read(&jwt(&header, &claims, &signer(1)), called);
        assert_eq!(read.is_ok(), fits, "{htu} {host}");
    }
}

#[test]
fn a_refresh_token_is_read_as_it_was_printed() {
    let token = RefreshToken {
        session: "ses_1".to_owned(),
        turn: 7,
        secret: "ab".repeat(32),
    };
    let text = token.to_string();
    assert_eq!(RefreshToken::read(&text), Some(token.clone()));
    assert!(!format!("{token:?}").contains("abab"));
    for wrong in [
        "",
        "sbr_",
        "sbr_a-b-c",
        "ses_1-7-ab",
        "sbr_a-+7-c",
        "sbr_a-07-c",
        "sbr_a-4294967296-c",
    ] {
        assert_eq!(RefreshToken::read(wrong), None, "{wrong}");
    }
}
