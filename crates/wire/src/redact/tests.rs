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
    "sbk_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "sbt_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "sbi_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "dop_v1_0123456789abcdef0123456789abcdef",
    "AGE-SECRET-KEY-1QQPQYQSZQGPQYQSZQGPQYQSZQGPQ",
    "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
    "pypi-AgEIcHlwaS5vcmcCJDAwMDAwMDAw",
    "hvs.CAESIJ0123456789abcdefghijkl",
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
        (
            "curl -s -u bot:pw12 https://example.org",
            "curl -s -u bot:[redacted] https://example.org",
        ),
        (
            "curl --user 'bot:two words' x",
            "curl --user 'bot:[redacted]' x",
        ),
        (
            "mysql -h db -uroot -ppw12 app",
            "mysql -h db -uroot -p[redacted] app",
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
        "mkdir -p /a/b && cargo test -p wire && cc -pthread && docker run -u 1000:1000 -p 8080:80 x",
        "sort -u name:value; pypi-attestations-verifier; sk-learn-contrib-package",
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

/// What agents say to each other: what is given, and what is passed on.
const SAID: &[(&str, &str)] = &[
    // Written out.
    ("use ghp_0123456789abcdefghij", "use [redacted]"),
    ("password=hunter2hunter2", "password=[redacted]"),
    ("GITHUB_TOKEN=abcd1234efgh", "GITHUB_TOKEN=[redacted]"),
    (
        "export NPM_TOKEN='abcd-1234-efgh'",
        "export NPM_TOKEN='[redacted]'",
    ),
    ("password: correct-horse-battery", "password: [redacted]"),
    (
        "db_password = \"tr0ub4dor&3\"",
        "db_password = \"[redacted]\"",
    ),
    (
        "git clone https://bot:s3cr3t-pass@example.org/x",
        "git clone https://bot:[redacted]@example.org/x",
    ),
    ("curl -u bot:hunter2hunter2 x", "curl -u bot:[redacted] x"),
    // Where the user's name is, the token may be.
    (
        "git clone https://ghp_0123456789abcdefghij:hunter2hunter2@github.com/x",
        "git clone https://[redacted]:[redacted]@github.com/x",
    ),
    (
        "curl -u ghp_0123456789abcdefghij:hunter2hunter2 x",
        "curl -u [redacted]:[redacted] x",
    ),
    ("mysql -phunter2hunter2 app", "mysql -p[redacted] app"),
    ("sk_live_4eC39HqLyjWDarjtT1zdp7dc", "[redacted]"),
];

/// The same for what stays: references, types, prose, what is too short.
const SAID_KEPT: &[&str] = &[
    "password: required; not 0123456789abcdef0123456789abcdef01",
    "password=hunter2",
    "GITHUB_TOKEN=$GITHUB_TOKEN and TOKEN=${TOKEN:-none}",
    "token = os.environ[\"API_TOKEN\"]",
    "token=process.env.API_TOKEN",
    "password: Option<String>, token: TokenId, secret: [u8; 32]",
    "fn login(password: &str, api_key: ApiKey256)",
    "connect(password=settings.db2.password, token=self.token)",
    "token=<your token here>, secret={{ secret }}",
    "password_file=/run/secrets/db1",
    "postgres://user:password@localhost/app",
    "postgres://user:$PGPASSWORD@localhost/app",
    "curl -u \"$USER:$PASS\" x; curl -u bot:pw12 x",
    "mysql -p$PASS app",
    "max_token: 100000000",
];

#[test]
fn what_agents_say_loses_what_is_written_out_and_keeps_references() {
    // agentbus.security.no_secrets
    for (given, clean) in SAID {
        assert_eq!(said(given), *clean);
    }
    for given in SAID_KEPT {
        assert_eq!(said(given), *given);
    }
}

#[test]
fn of_a_name_and_a_password_both_are_looked_at() {
    for (given, clean) in [
        (
            "https://ghp_0123456789abcdefghij:x-oauth-basic@github.com/x",
            "https://[redacted]:[redacted]@github.com/x",
        ),
        (
            "https://x-access-token:hunter2hunter2@github.com/x",
            "https://x-access-token:[redacted]@github.com/x",
        ),
        (
            "curl --user=sbt_0123456789abcdef:x x; y",
            "curl --user=[redacted]:x x; y",
        ),
    ] {
        assert_eq!(text(given), clean);
    }
}

#[test]
fn the_body_of_a_message_keeps_its_structure_and_says_how_much_is_gone() {
    let given = r#"{"text":"-----BEGIN PRIVATE KEY----- abc","n":1,"auth":{"password":"hunter2hunter2","user":"bot"},"token":"$TOKEN"}"#;
    let clean = said_json(given);
    let parsed: Value = serde_json::from_str(&clean).expect("it is still JSON");
    assert_eq!(
        parsed,
        json!({"text": REDACTED, "n": 1, "auth": {"password": REDACTED, "user": "bot"}, "token": "$TOKEN"})
    );
    assert_eq!(count(&clean), 2);
    assert!(matches!(said_json(r#"{"n":1}"#), Cow::Borrowed(_)));
}

#[test]
fn an_identifier_holds_a_token_or_not() {
    for secret in [
        "ghp_0123456789abcdefghij",
        "src/sk_live_4eC39HqLyjWDarjtT1zdp7dc.rs",
    ] {
        assert!(holds_token(secret), "{secret}");
    }
    for name in [
        "worker-3-1707600000",
        "qZ8kLmN3pRsTuV5wXyZ1aBcDeFgHiJkL2mNoPq",
        "token=abcd1234efgh",
        "src/password.rs",
    ] {
        assert!(!holds_token(name), "{name}");
    }
}

/// Agents send each other code and documents; ours are as good an example as any.
#[test]
fn our_own_sources_and_documents_are_passed_on_as_they_are() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let mut folders = vec![std::path::PathBuf::from(root)];
    let mut looked_at = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("it can be read") {
            let path = entry.expect("it is there").path();
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            if path.is_dir() {
                // What tests make up as secrets is there to be taken out.
                if !name.starts_with('.') && !["target", "node_modules", "tests"].contains(&name) {
                    folders.push(path);
                }
                continue;
            }
            let is_text = ["rs", "md", "toml", "sql", "sh"]
                .iter()
                .any(|end| path.extension().is_some_and(|extension| extension == *end));
            if !is_text || name == "tests.rs" {
                continue;
            }
            let given = std::fs::read_to_string(&path).expect("it is text");
            let given = given.split("#[cfg(test)]").next().unwrap_or_default();
            let clean = said(given);
            for (before, after) in given.lines().zip(clean.lines()) {
                assert_eq!(before, after, "{}", path.display());
            }
            looked_at += 1;
        }
    }
    assert!(looked_at > 300, "only {looked_at} files were looked at");
}
