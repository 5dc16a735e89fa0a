//! Inputs made by chance: the kept ones bent, words in a row, and messages with something odd in them.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};
use switchboard_wire::jetpack::Operation;

use crate::{files, root};

/// What was found to matter somewhere before.
#[rustfmt::skip]
const ODD: &[&str] = &[
    "", "\0", "\r\n", "\n", "\u{feff}", "\u{200b}", "\u{202e}", "\u{7f}", "\u{85}", "\"", "\\", "\\u0000", "\\ud800",
    "\\ud83d\\ude00", "{", "}", "[[[[[[[[", "]", ",", ":", "9007199254740993", "-9007199254740993", "1e400", "-0",
    "1.0", "null", "true", "%", "%00", "%ff", "%EF%BB%BF", "&", "=", "+", ";", "--", "/*", "'", "sb_",
    "\"agentId\":\"b\",", "\"signature\":1,", " ",
];

#[derive(Clone, Debug)]
enum Edit {
    Set(Index, u8),
    Insert(Index, &'static str),
    Remove(Index, usize),
    Repeat(Index, usize, usize),
    /// From here on it is another one of the kept.
    Splice(Index, Index),
    Cut(Index),
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<Index>;
    prop_oneof![
        1 => (at(), any::<u8>()).prop_map(|(at, byte)| Edit::Set(at, byte)),
        3 => (at(), select(ODD)).prop_map(|(at, odd)| Edit::Insert(at, odd)),
        1 => (at(), 1..20_usize).prop_map(|(at, len)| Edit::Remove(at, len)),
        1 => (at(), 1..40_usize, 1..40_usize).prop_map(|(at, len, times)| Edit::Repeat(at, len, times)),
        1 => (at(), at()).prop_map(|(at, of)| Edit::Splice(at, of)),
        1 => at().prop_map(Edit::Cut),
    ]
}

/// One of these, with a few edits.
pub fn mutated(kept: Vec<Vec<u8>>) -> BoxedStrategy<Vec<u8>> {
    let edits = prop::collection::vec(edit(), 1..5);
    (select(kept.clone()), edits)
        .prop_map(move |(mut bytes, edits)| {
            for edit in edits {
                apply(&mut bytes, &edit, &kept);
            }
            bytes
        })
        .boxed()
}

fn apply(bytes: &mut Vec<u8>, edit: &Edit, kept: &[Vec<u8>]) {
    let place = |at: &Index, bytes: &[u8]| at.index(bytes.len() + 1);
    match edit {
        Edit::Set(at, byte) => {
            let at = place(at, bytes);
            bytes.splice(at..(at + 1).min(bytes.len()), [*byte]);
        }
        Edit::Insert(at, odd) => {
            let at = place(at, bytes);
            bytes.splice(at..at, odd.bytes());
        }
        Edit::Remove(at, len) => {
            let at = place(at, bytes);
            bytes.drain(at..(at + len).min(bytes.len()));
        }
        Edit::Repeat(at, len, times) => {
            let at = place(at, bytes);
            let piece = bytes[at..(at + len).min(bytes.len())].repeat(*times);
            bytes.splice(at..at, piece);
        }
        Edit::Splice(at, of) => {
            let (at, of) = (place(at, bytes), of.get(kept));
            bytes.truncate(at);
            bytes.extend_from_slice(&of[at.min(of.len())..]);
        }
        Edit::Cut(at) => {
            let at = place(at, bytes);
            bytes.truncate(at);
        }
    }
}

/// Words in a row, some of them odd.
pub fn words(list: &'static [&'static str]) -> BoxedStrategy<Vec<u8>> {
    let word = prop_oneof![9 => select(list), 1 => select(ODD)];
    prop::collection::vec(word, 0..16)
        .prop_map(|words| words.concat().into_bytes())
        .boxed()
}

/// A golden message of `wire` with a value replaced by an odd one, or a member given twice.
pub fn json(folder: &str) -> BoxedStrategy<Vec<u8>> {
    let golden: Vec<Value> = files(&root("crates/wire").join(folder))
        .iter()
        .map(|(name, bytes)| sealed(name, serde_json::from_slice(bytes).unwrap()))
        .collect();
    #[rustfmt::skip]
    let odd = vec![
        json!(null),
        json!(true),
        json!(-1),
        json!(0.5),
        json!(9_007_199_254_740_993_u64),
        json!(1e300),
        json!(""),
        json!("\u{feff}a1"),
        json!("STEWARD\u{200b}"),
        json!("a\0b"),
        json!("x".repeat(300)),
        json!([]),
        json!({}),
        json!([[[]]]),
        json!({"a": {"a": 1}}),
        json!("2026-01-19T10:00:00.000Z"),
        json!("CLAIM"),
        json!("../../etc/passwd"),
        json!("\u{202e}\u{7f}"),
    ];
    let steps = prop::collection::vec(any::<Index>(), 1..6);
    let bent = (select(golden), steps, select(odd), any::<bool>());
    bent.prop_map(|(mut message, steps, odd, twice)| {
        let name = bend(&mut message, &steps, odd.clone());
        let text = message.to_string();
        match (name, twice) {
            (Some(name), true) => text.replacen('{', &format!("{{{}:{odd},", json!(name)), 1),
            _ => text,
        }
        .into_bytes()
    })
    .boxed()
}

/// Says which operation it is, if its file does.
fn sealed(name: &str, mut message: Value) -> Value {
    let word = name.split('.').next().unwrap_or_default();
    if let Ok(operation) = word.to_ascii_uppercase().parse::<Operation>() {
        message["operation"] = operation.as_str().into();
    }
    message
}

/// Puts a value somewhere; tells the name of the outermost member that it is in.
fn bend(value: &mut Value, steps: &[Index], odd: Value) -> Option<String> {
    let Some((step, steps)) = steps.split_first() else {
        *value = odd;
        return None;
    };
    match value {
        Value::Object(members) if !members.is_empty() => {
            let name = members.keys().nth(step.index(members.len())).cloned()?;
            bend(members.get_mut(&name)?, steps, odd);
            Some(name)
        }
        Value::Array(items) if !items.is_empty() => {
            let at = step.index(items.len());
            bend(&mut items[at], steps, odd);
            None
        }
        _ => {
            *value = odd;
            None
        }
    }
}

/// A request of plausible parts.
pub fn http() -> BoxedStrategy<Vec<u8>> {
    let part = |of| prop_oneof![12 => select(of), 1 => select(ODD)];
    let headers = prop::collection::vec(part(HEADERS), 0..5);
    (
        part(METHODS),
        part(TARGETS),
        part(VERSIONS),
        headers,
        part(PAYLOADS),
    )
        .prop_map(|(method, target, version, headers, payload)| {
            let headers = headers.concat();
            format!("{method} {target} {version}\r\nhost: localhost\r\n{headers}\r\n{payload}")
        })
        .prop_map(String::into_bytes)
        .boxed()
}

const METHODS: &[&str] = &[
    "GET", "GET", "POST", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "get",
];
#[rustfmt::skip]
const TARGETS: &[&str] = &[
    "/healthz", "/api/v1/status", "/api/v1/protocol", "/api/v1/batch", "/api/v1/agents/%ff", "/api/v1/agents/a1/heartbeat",
    "/api/v1/tasks?limit=x", "/api/v1/tasks/%23", "/api/v1/tasks/1/complete", "/api/v1/messages?agentId=a1&since=0", "/api/v1/leases/check?filePath=../x",
    "/api/v1/memory/search?q=%00", "/api/v1/tokens", "/api/v1/events?after=9.9", "/v2/pipeline", "/v3/cursor", "/metrics", "/%2e%2e/", "*", "http://evil.example/", "//healthz",
];
const VERSIONS: &[&str] = &[
    "HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "http/1.1",
];
#[rustfmt::skip]
const HEADERS: &[&str] = &[
    "host: evil.example\r\n", "origin: null\r\n", "referer: x\r\n", "sec-fetch-site: cross-site\r\n", "content-length: 2\r\n", "content-length: 60\r\n",
    "content-length: +2\r\n", "content-length: 2, 2\r\n", "transfer-encoding: chunked\r\n", "transfer-encoding: chunked\r\n", "transfer-encoding : chunked\r\n",
    "expect: 100-continue\r\n", "connection: close\r\n", "authorization: Bearer x\r\n", "authorization: Basic x\r\n", "switchboard-agent: a1\r\n",
    "switchboard-signature: 00\r\n", "switchboard-timestamp: 2026-01-19T10:00:00.000Z\r\n", "idempotency-key: k\r\n", "accept: text/event-stream\r\n", "x: \u{1}\r\n", " folded\r\n", "x\r\n",
];
#[rustfmt::skip]
const PAYLOADS: &[&str] = &[
    "", "{}", "{\"operation\":\"CLAIM\",\"agentId\":\"a1\"}", "{\"operations\":[{\"operation\":\"CLAIM\"}]}", "2\r\n{}\r\n0\r\n\r\n", "2\r\n{}", "ffffffffffffffff\r\n",
    "-1\r\n", "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n",
];

#[rustfmt::skip]
pub const QUERY: &[&str] = &[
    "status=", "ready", "idle", "failed", "&", "&", "&", "limit=", "10", "0", "-1", "4294967296", "cursor=", "agentId=", "a1", "since=", "2026-01-19",
    "T10:00:00.000Z", "types=", "custom", ",", "all", "=true", "=false", "after=", "1.2", "0.0", "nonce=", "0123456789abcdef0123456789abcdef", "q=", "wait=", "60",
    "filePath=", "src/*.rs", "%2C", "%20", "%C3%BC", "taskId=", "unknown=1", "%zz",
];
#[rustfmt::skip]
pub const SECRET: &[&str] = &[
    " ", " ", "\n", "\t", "password", "token", "api_key", "Authorization", "=", ":", " = ", "\"", "'", "`", "\\", "\\u0070", "://", "@", "https://bot:", "hunter2hunter2",
    "Bearer ", "Basic ", "eyJhbGciOiJIUzI1NiJ9", ".eyJzdWIiOiIxIn0", ".", "ghp_0123456789", "sbt_", "sbk_0123456789abcdef", "0123456789abcdef", "AKIA", "IOSFODNN7EXAMPLE",
    "-----BEGIN ", "PRIVATE KEY-----", "-----END PRIVATE KEY-----", "curl -u ", "mysql -p", "bot:", "$TOKEN", "os.environ[\"X\"]", "[redacted]", "[redacted", "sk-", "_", "-", "{", "}", "[", "]", ",",
    "ü", "日本", "x", "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6",
];
#[rustfmt::skip]
pub const JOB: &[&str] = &[
    "{", "}", "[", "]", ",", ":", " ", "\n", "```", "```json\n", "\u{feff}", "\"action\":", "\"COMPLETED\"", "\"RETRY\"", "[\"STUCK\"]", "\"evidence_files\":", "[\"a.txt\"]", "[\"../a\",\"/a\",\"\"]",
    "\"summary_for_supervisor\":", "\"Done. \"", "\"\\u0000\"", "\"response\":", "\"metrics\":", "{\"cost_usd\":1e308,\"token_input\":-1}", "\"error\":{\"type\":\"api_error\"}", "LOGIST_METRICS {", "429", "quota",
    "\"job_id\":\"j\",\"status\":\"PAUSED\",\"metrics\":{}", "\"schema_version\":\"1.0\"", "\"phases\":", "[\"a\",{\"name\":\"b\"}]", "\"interactions\":", "{\"timestamp\":\"2025-01-29T14:30:45Z\",\"response\":{\"status\":\"SUCCESS\",\"action\":\"RETRY\"}}",
    "\"recovery_points\":[{\"id\":\"p\"}]", "\"jobs\":{\"a\":\"/a\"}", "\"queue\":[]", "\"cost_threshold\":", "1e300", "-1", "0.5", "null", "ghp_0123456789abcdefghij", "\"job_spec\":", "ü",
];
#[rustfmt::skip]
pub const TOKEN: &[&str] = &[
    "sbt_", "sbk_", "SBT_", "0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef", "0123456789ABCDEF0123456789ABCDEF", "f", "g", " ", "\n", "sbt_sbk_",
    "2026", "-01-19", "T10:00:00", ".000", "Z", "+01:00", "-00:00", "T24:00:00", "steward", "STEWARD", "a1", "٠١",
];
#[rustfmt::skip]
pub const HRANA: &[&str] = &[
    r#"{"requests":["#, r#"{"baton":"b","requests":["#, r#"{"batch":"#, r#"{"type":"execute","stmt":"#, r#"{"type":"batch","batch":{"steps":["#, r#"{"type":"close"}"#, r#"{"type":"describe","sql_id":1}"#,
    r#"{"sql":"SELECT 1","args":["#, r#"{"type":"integer","value":"9223372036854775808"}"#, r#"{"type":"integer","value":"-1"}"#, r#"{"type":"float","value":1e308}"#, r#"{"type":"blob","base64":"AP/+"}"#,
    r#"{"type":"text","value":"\u0000"}"#, r#"{"type":"null"}"#, r#"{"condition":{"type":"not","cond":"#, r#"{"type":"ok","step":0}"#, r#","stmt":{"sql":"x"}}"#, ",", ",", "]", "}", "]}", "}}", "]}}",
];
