//! What is hidden, and what survives.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const HIDDEN: &[&str] = &[
    "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "gho_16C7e42F292c6912E7710c838347Ae178B4a",
    "github_pat_11ABCDEFG0abcdefghijkl_MNOPqrstuvwxyz0123456789",
    "glpat-abcdefghij0123456789",
    "npm_abcdefghij0123456789abcdefghij",
    "hf_abcdefghijklmnopqrstuvwxyzabcd",
    "sk-proj-abcdEFGH0123456789abcdEFGH",
    "xoxb-123456789012-abcdefghijkl",
    "AKIAIOSFODNN7EXAMPLE",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "AIzaSyA0123456789abcdefghijklmnopqrstuv",
    "qZ8kLmN3pRsTuV5wXyZ1aBcDeFgHiJkL2mNoPq",
    "0123456789abcdef0123456789abcdef0123456789abcdef",
    "sbt_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
];

#[test]
fn tokens_are_hidden_wherever_they_stand() {
    // agentbus.security.no_secrets
    for secret in HIDDEN {
        for (before, after) in [
            ("", ""),
            ("clone failed: ", " was refused"),
            ("(", ")"),
            ("a\n", "\nb"),
            ("url?x=", "&y=1"),
            ("\"", "\""),
        ] {
            let given = format!("{before}{secret}{after}");
            let clean = text(&given);
            assert!(!clean.contains(secret), "{clean}");
            assert_eq!(clean, format!("{before}{REDACTED}{after}"), "{given}");
        }
    }
}

#[test]
fn values_of_secret_names_are_hidden() {
    for (given, clean) in [
        ("password=hunter2", "password=[redacted]"),
        ("DB_PASSWORD=hunter2 next", "DB_PASSWORD=[redacted] next"),
        ("api_key: 'abcd efgh' x", "api_key: '[redacted]' x"),
        (
            "{\"client_secret\":\"abcd\",\"n\":1}",
            "{\"client_secret\":\"[redacted]\",\"n\":1}",
        ),
        ("githubToken => abcd1", "githubToken => [redacted]"),
        ("?token=abcd1&x=2", "?token=[redacted]&x=2"),
        (
            "Authorization: Bearer abcdef0123456789xyz",
            "Authorization: Bearer [redacted]",
        ),
        (
            "authorization: basic dXNlcjpwYXNz=",
            "authorization: basic [redacted]",
        ),
        (
            "https://bot:s3cret@example.org/x",
            "https://bot:[redacted]@example.org/x",
        ),
    ] {
        assert_eq!(text(given), clean);
    }
}

#[test]
fn a_private_key_is_hidden_to_its_end() {
    let key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAK\n-----END RSA PRIVATE KEY-----";
    assert_eq!(text(&format!("a {key} b")), "a [redacted] b");
    assert_eq!(text("a -----BEGIN PRIVATE KEY-----\nMII"), "a [redacted]");
    let public = "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----";
    assert_eq!(text(public), public);
}

#[test]
fn what_the_swarm_works_with_survives() {
    for given in [
        "da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "123e4567-e89b-12d3-a456-426614174000",
        "engram_e_01J0Z3NDEKTSV4RRFFQ69G5FAV.json",
        "memory/st/20260211-000000Z/engram_e_01J0Z3NDEKTSV4RRFFQ69G5FAV.json",
        "20260212-004102Z-worker-3-attempt-2",
        "worker-3-1707600000",
        "crates/wire/src/agentbus/message/protocol_incompatibility.rs",
        "max_tokens=4096, tokens: 512, tokenizer=fast",
        "the token is missing; password required",
        "secret=$SECRET password=**** token: null token: true",
        "ThisIsAVeryLongCamelCaseIdentifierOfAClass",
        "a_very_long_snake_case_name_of_a_test_function_number_12",
        "2026-02-12T00:00:00Z",
        "Basic authentication and a bearer of news",
        "https://example.org:8080/a@b",
        "größe=wichtig: ja",
        "disk-0123456789abcdef is full",
        "1234567890123456789012345678901234567890123",
    ] {
        assert_eq!(text(given), given);
    }
}

#[test]
fn json_is_cleaned_string_by_string_and_stays_json() {
    let given = r#"{"a":"x\nghp_0123456789abcdefghij","password":"p\"q\"r","n":1.5,"list":["sk-abcdefgh0123456789"]}"#;
    let clean: Value = serde_json::from_str(&json(given)).expect("JSON");
    assert_eq!(
        clean,
        json!({ "a": "x\n[redacted]", "password": "[redacted]", "n": 1.5, "list": ["[redacted]"] })
    );
    let hidden = r#"{"a":"\u0067hp_0123456789abcdefghij"}"#;
    assert_eq!(json(hidden), r#"{"a":"[redacted]"}"#);
    let plain = r#"{"state":{"stage":"CODE", "issue_number":21}}"#;
    assert!(matches!(json(plain), Cow::Borrowed(_)));
}

proptest! {
    #[test]
    fn a_string_is_cleaned_the_same_in_json_and_by_itself(
        given in "(\\PC|password|token|=|:|\"|://|@|Bearer |eyJ|ghp_0123456789|0123456789|\\\\|\t|\n){0,24}",
    ) {
        let clean = text(&given).into_owned();
        let printed = Value::from(given.as_str()).to_string();
        let read: Value = serde_json::from_str(&json(&printed)).expect("JSON");
        prop_assert_eq!(read, Value::from(clean));
    }

    #[test]
    fn no_token_survives_between_any_two_texts(
        before in "(\\PC{0,12}[ \n\"(,;])?", after in "([ \n\"),;]\\PC{0,12})?", secret in prop::sample::select(HIDDEN),
    ) {
        let given = format!("{before}{secret}{after}");
        prop_assert!(!text(&given).contains(secret), "{}", text(&given));
    }
}

#[test]
fn between_people_only_tokens_and_keys_are_hidden() {
    // agentbus.security.no_secrets
    let id = "0123456789abcdef0123456789abcdef01";
    let said = format!("password: required; use ghp_0123456789abcdefghij, not {id}");
    let kept = format!("password: required; use [redacted], not {id}");
    assert_eq!(tokens(&said), kept);
    let json = r#"{"text":"-----BEGIN PRIVATE KEY----- abc","n":1}"#;
    let parsed: Value = serde_json::from_str(&json_tokens(json)).expect("it is still JSON");
    assert_eq!(parsed, serde_json::json!({"text": REDACTED, "n": 1}));
    assert!(matches!(json_tokens(r#"{"n":1}"#), Cow::Borrowed(_)));
}
