//! The client against a stand-in hub that answers from a script.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use switchboard_wire::jetpack::{ClaimRequest, NewTask, ReceiveMessagesRequest, TaskQuery};
use switchboard_wire::signature::{AgentKey, MasterKey, SignedRequest};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

use crate::{Client, Error, RetryPolicy};

/// What the stand-in does with one request.
#[derive(Clone)]
enum Step {
    /// Status line and headers, then the body.
    Answer(&'static str, String),
    /// Takes the request and hangs up.
    HangUp,
    /// Announces more than it sends, then hangs up.
    BreakOff,
}

/// A hub that plays one step per connection and keeps the requests it got.
struct StandIn {
    address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl StandIn {
    async fn play(steps: Vec<Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&requests);
        tokio::spawn(async move {
            for step in steps {
                let (mut socket, _) = listener.accept().await.unwrap();
                let request = read_request(&mut socket).await;
                kept.lock().await.push(request);
                act(&mut socket, step).await;
            }
        });
        Self { address, requests }
    }

    fn client(&self) -> Client {
        self.builder().build().unwrap()
    }

    fn builder(&self) -> crate::Builder {
        let policy = RetryPolicy {
            tries: 3,
            first_wait: Duration::from_millis(1),
            wait_max: Duration::from_secs(1),
        };
        Client::builder(&self.address).retry(policy)
    }

    async fn requests(&self) -> Vec<String> {
        self.requests.lock().await.clone()
    }
}

async fn read_request(socket: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some(end) = text.find("\r\n\r\n") {
            let length =
                header(&text, "content-length").map_or(0, |length| length.parse().unwrap());
            if bytes.len() >= end + 4 + length {
                return text;
            }
        }
        if socket.read_buf(&mut bytes).await.unwrap() == 0 {
            return String::from_utf8_lossy(&bytes).into_owned();
        }
    }
}

async fn act(socket: &mut TcpStream, step: Step) {
    let text = match step {
        Step::Answer(head, body) => {
            format!(
                "HTTP/1.1 {head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            )
        }
        Step::BreakOff => "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{\"succ".to_owned(),
        Step::HangUp => return,
    };
    socket.write_all(text.as_bytes()).await.unwrap();
    socket.shutdown().await.unwrap();
}

fn header(request: &str, name: &str) -> Option<String> {
    let lines = request.lines().take_while(|line| !line.is_empty());
    let mut pairs = lines.filter_map(|line| line.split_once(": "));
    pairs
        .find(|(key, _)| key.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.to_owned())
}

fn no_task() -> Step {
    Step::Answer(
        "200 OK",
        r#"{"success":false,"reason":"no_matching_tasks"}"#.to_owned(),
    )
}

fn refusal(head: &'static str, code: &str) -> Step {
    Step::Answer(
        head,
        format!(
            r#"{{"success":false,"error":"{code}","message":"no","field":"title","reason":"r"}}"#
        ),
    )
}

fn claim() -> ClaimRequest {
    ClaimRequest {
        agent_id: "a".to_owned(),
        ..ClaimRequest::default()
    }
}

#[tokio::test]
async fn transient_errors_are_retried_with_the_same_idempotency_key() {
    let hub = StandIn::play(vec![
        Step::HangUp,
        refusal("503 Service Unavailable", "overloaded"),
        no_task(),
    ])
    .await;
    let answer = hub.client().tasks().claim(&claim()).await.unwrap();
    assert!(!answer.success);
    let requests = hub.requests().await;
    let keys: Vec<_> = requests
        .iter()
        .map(|request| header(request, "idempotency-key").unwrap())
        .collect();
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    let bodies: Vec<_> = requests
        .iter()
        .map(|request| request.split("\r\n\r\n").nth(1).unwrap())
        .collect();
    assert!(
        bodies.iter().all(|body| *body == r#"{"agentId":"a"}"#),
        "{bodies:?}"
    );
}

#[tokio::test]
async fn an_answer_that_broke_off_is_asked_for_again() {
    let hub = StandIn::play(vec![Step::BreakOff, no_task()]).await;
    hub.client().tasks().claim(&claim()).await.unwrap();
    assert_eq!(hub.requests().await.len(), 2);
}

#[tokio::test]
async fn every_call_has_a_key_of_its_own_unless_one_is_given() {
    let hub = StandIn::play(vec![no_task(), no_task(), no_task()]).await;
    let client = hub.client();
    client.tasks().claim(&claim()).await.unwrap();
    client.tasks().claim(&claim()).await.unwrap();
    client
        .with_idempotency_key("mine")
        .tasks()
        .claim(&claim())
        .await
        .unwrap();
    let keys: Vec<_> = hub
        .requests()
        .await
        .iter()
        .map(|request| header(request, "idempotency-key").unwrap())
        .collect();
    assert_ne!(keys[0], keys[1]);
    assert_eq!(keys[2], "mine");
}

#[tokio::test]
async fn permanent_errors_come_back_at_once() {
    let hub = StandIn::play(vec![refusal("400 Bad Request", "invalid_operation")]).await;
    match hub
        .client()
        .tasks()
        .create(&NewTask::default())
        .await
        .unwrap_err()
    {
        Error::Refused {
            status,
            code,
            message,
            field,
            reason,
            retry_after,
        } => {
            assert_eq!(
                (status, code.as_str(), message.as_str()),
                (400, "invalid_operation", "no")
            );
            assert_eq!(
                (field.as_deref(), reason.as_deref(), retry_after),
                (Some("title"), Some("r"), None)
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(hub.requests().await.len(), 1);
}

#[tokio::test]
async fn the_last_transient_error_comes_back_when_the_tries_are_spent() {
    let hub = StandIn::play(vec![
        refusal("503 Busy", "overloaded"),
        refusal("503 Busy", "overloaded"),
        refusal("429 Slow", "rate_limited"),
    ])
    .await;
    let error = hub.client().tasks().claim(&claim()).await.unwrap_err();
    assert_eq!(error.code(), Some("rate_limited"));
    assert_eq!(hub.requests().await.len(), 3);
}

#[tokio::test]
async fn a_retry_after_beyond_the_longest_wait_ends_the_call() {
    let hub = StandIn::play(vec![Step::Answer(
        "429 Slow\r\nretry-after: 3600",
        String::new(),
    )])
    .await;
    match hub.client().tasks().claim(&claim()).await.unwrap_err() {
        Error::Refused {
            code, retry_after, ..
        } => {
            assert_eq!(
                (code.as_str(), retry_after),
                ("http_429", Some(Duration::from_secs(3600)))
            );
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn nobody_there_names_the_address() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let client = Client::builder(&address.to_string())
        .retry(RetryPolicy::NEVER)
        .build()
        .unwrap();
    let error = client.tasks().claim(&claim()).await.unwrap_err();
    assert!(error.is_transient());
    assert_eq!(
        error.to_string(),
        format!("no hub answers at http://{address}")
    );
}

#[tokio::test]
async fn reading_carries_no_key_but_receiving_does() {
    let page = Step::Answer(
        "200 OK",
        r#"{"success":true,"tasks":[],"next":null}"#.to_owned(),
    );
    let mail = Step::Answer("200 OK", r#"{"success":true,"messages":[]}"#.to_owned());
    let hub = StandIn::play(vec![page, mail]).await;
    let client = hub.client();
    client
        .tasks()
        .list(&TaskQuery {
            limit: Some(5),
            ..TaskQuery::default()
        })
        .await
        .unwrap();
    let request = ReceiveMessagesRequest {
        agent_id: "a b".to_owned(),
        ..ReceiveMessagesRequest::default()
    };
    client.messages().receive(&request).await.unwrap();
    let requests = hub.requests().await;
    assert!(
        requests[0].starts_with("GET /api/v1/tasks?limit=5 HTTP/1.1\r\n"),
        "{}",
        requests[0]
    );
    assert_eq!(header(&requests[0], "idempotency-key"), None);
    assert!(
        requests[1].starts_with("GET /api/v1/messages?agentId=a%20b HTTP/1.1\r\n"),
        "{}",
        requests[1]
    );
    assert!(header(&requests[1], "idempotency-key").is_some());
}

#[tokio::test]
async fn ids_are_encoded_into_the_path_and_odd_ones_refused() {
    let hub = StandIn::play(vec![refusal("404 Not Found", "task_not_found")]).await;
    let client = hub.client();
    assert_eq!(
        client.tasks().get("a/b #1?").await.unwrap_err().code(),
        Some("task_not_found")
    );
    assert!(hub.requests().await[0].starts_with("GET /api/v1/tasks/a%2Fb%20%231%3F HTTP/1.1\r\n"));
    assert!(matches!(
        client.tasks().get("..").await,
        Err(Error::Invalid(_))
    ));
    assert!(matches!(
        client.tasks().get("").await,
        Err(Error::Invalid(_))
    ));
}

#[tokio::test]
async fn each_try_is_signed_anew_over_what_is_sent() {
    let hub = StandIn::play(vec![Step::HangUp, no_task()]).await;
    let key = "00".repeat(32);
    let client = hub.builder().agent("a", &key).build().unwrap();
    client.tasks().claim(&claim()).await.unwrap();
    let requests = hub.requests().await;
    let mut nonces = Vec::new();
    for request in &requests {
        let get = |name| header(request, name).unwrap();
        assert_eq!(get("switchboard-agent"), "a");
        let (timestamp, nonce) = (get("switchboard-timestamp"), get("switchboard-nonce"));
        let body = request.split("\r\n\r\n").nth(1).unwrap();
        let signed = SignedRequest {
            method: "POST",
            path_and_query: "/api/v1/tasks/claim",
            timestamp: &timestamp,
            nonce: Some(&nonce),
            body: body.as_bytes(),
        };
        let key = AgentKey::from_text(&key).unwrap();
        assert!(key.verify(&signed.to_sign(), &get("switchboard-signature")));
        nonces.push(nonce);
    }
    assert_ne!(nonces[0], nonces[1]);
}

fn events(numbers: &[u64]) -> Step {
    let frames = numbers.iter().map(|seq| {
        format!("id: {seq}\nevent: task_created\ndata: {{\"seq\":{seq},\"at\":\"2026-01-01T00:00:00.000Z\",\"type\":\"task_created\"}}\n\n")
    });
    Step::Answer(
        "200 OK\r\ncontent-type: text/event-stream",
        frames.collect(),
    )
}

#[tokio::test]
async fn a_cut_event_stream_is_taken_up_where_it_broke_off() {
    let hub = StandIn::play(vec![
        events(&[5, 6]),
        Step::HangUp,
        refusal("503 Busy", "overloaded"),
        events(&[6, 7, 8]),
    ])
    .await;
    let client = hub.client();
    let stream = client.events().follow(Some(4));
    let got: Vec<_> = stream
        .take(4)
        .map(|event| event.unwrap().seq)
        .collect()
        .await;
    assert_eq!(got, [5, 6, 7, 8]);
    let ids: Vec<_> = hub
        .requests()
        .await
        .iter()
        .map(|request| header(request, "last-event-id").unwrap())
        .collect();
    assert_eq!(ids, ["4", "6", "6", "6"]);
}

#[tokio::test]
async fn who_is_told_that_the_ledger_was_rewound_hears_numbers_again() {
    let frame = |id: &str, kind: &str| {
        let seq = id.rsplit('.').next().unwrap();
        format!(
            "id: {id}\nevent: {kind}\ndata: {{\"seq\":{seq},\"at\":\"2026-01-01T00:00:00.000Z\",\"type\":\"{kind}\"}}\n\n"
        )
    };
    let stream = |frames: &[String]| {
        Step::Answer("200 OK\r\ncontent-type: text/event-stream", frames.concat())
    };
    let hub = StandIn::play(vec![
        stream(&[frame("1.5", "task_created"), frame("1.6", "task_created")]),
        stream(&[frame("2.4", "ledger_rewound"), frame("2.5", "epoch_began")]),
        stream(&[frame("2.5", "epoch_began"), frame("2.6", "task_created")]),
    ])
    .await;
    let client = hub.client();
    let stream = client.events().follow(Some(4));
    let got: Vec<_> = stream
        .take(5)
        .map(|event| event.unwrap())
        .map(|event| (event.seq, event.kind))
        .collect()
        .await;
    let told = |seq, kind: &str| (seq, kind.to_owned());
    assert_eq!(
        got,
        [
            told(5, "task_created"),
            told(6, "task_created"),
            told(4, "ledger_rewound"),
            told(5, "epoch_began"),
            told(6, "task_created"),
        ]
    );
    let ids: Vec<_> = hub
        .requests()
        .await
        .iter()
        .map(|request| header(request, "last-event-id").unwrap())
        .collect();
    assert_eq!(ids, ["4", "1.6", "2.5"]);
}

#[tokio::test]
async fn a_refused_event_stream_ends_with_the_refusal() {
    let hub = StandIn::play(vec![events(&[1]), refusal("401 Who", "unauthenticated")]).await;
    let client = hub.client();
    let mut stream = Box::pin(client.events().follow(Some(0)));
    assert_eq!(stream.next().await.unwrap().unwrap().seq, 1);
    let refused = stream.next().await.unwrap().unwrap_err();
    assert_eq!(refused.code(), Some("unauthenticated"));
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn from_now_on_stays_where_it_was_when_the_stream_is_cut_before_its_first_event() {
    let newest = r#"{"success":true,"events":[],"next":null,"latest":7}"#.to_owned();
    let hub = StandIn::play(vec![
        Step::Answer("200 OK", newest),
        Step::HangUp,
        events(&[8]),
    ])
    .await;
    let client = hub.client();
    let mut stream = Box::pin(client.events().follow(None));
    assert_eq!(stream.next().await.unwrap().unwrap().seq, 8);
    for request in &hub.requests().await[1..] {
        assert_eq!(header(request, "last-event-id").as_deref(), Some("7"));
    }
}

#[tokio::test]
async fn nothing_is_sent_to_whoever_does_not_prove_to_be_the_hub() {
    let elsewhere = MasterKey::new([7; 32]).proof("n", "127.0.0.1:1".parse().unwrap());
    let steps = [
        Step::Answer(
            "200 OK",
            format!(r#"{{"success":true,"proof":"{elsewhere}"}}"#),
        ),
        Step::Answer("404 Not Found", "{}".to_owned()),
        Step::Answer("200 OK", "ok".to_owned()),
    ];
    for step in steps {
        let hub = StandIn::play(vec![step]).await;
        let builder = hub
            .builder()
            .token("hush")
            .proven_by(MasterKey::new([7; 32]));
        let error = builder.build().unwrap().admin().status().await.unwrap_err();
        assert!(matches!(error, Error::Unproven { .. }), "{error:?}");
        let requests = hub.requests.lock().await;
        assert_eq!(requests.len(), 1);
        assert!(
            requests[0].starts_with("GET /proof?nonce="),
            "{}",
            requests[0]
        );
        assert!(!requests[0].contains("hush"), "{}", requests[0]);
    }
    let named = Client::builder("http://localhost:1").proven_by(MasterKey::new([7; 32]));
    assert!(matches!(named.build(), Err(Error::Invalid(_))));
}
