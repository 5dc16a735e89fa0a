//! Whatever comes over the socket, the hub says what is wrong with it, stays up, and serves the others.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;

use serde_json::json;
use switchboard_tests::{API, Answer, Client, Hub, PATIENCE, Project, Random, Request, until};

const BODY_MAX: usize = 1024 * 1024;
/// Far above what it needs, far below what any of this would cost if it were kept.
const MEMORY_MAX: u64 = 200 * 1024 * 1024;

#[test]
fn a_body_over_a_mebibyte_is_refused_before_it_is_sent() {
    let (_project, hub) = hub();
    let mut client = hub.client();
    let head = format!(
        "POST {API}/tasks HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n",
        hub.addr(),
        BODY_MAX + 1
    );
    client.write(head.as_bytes()).expect("the hub listens");
    // Not one byte of the body was sent.
    client
        .finish()
        .expect("it is answered")
        .expect_error(413, "too_large");

    let mut whole = json!({"title": "fits", "filler": ""});
    let missing = BODY_MAX - whole.to_string().len();
    whole["filler"] = json!("x".repeat(missing));
    assert_eq!(whole.to_string().len(), BODY_MAX);
    client.post(&format!("{API}/tasks"), &whole).expect(201);
    serves(hub);
}

#[test]
fn a_body_in_pieces_is_refused_as_soon_as_it_is_too_large() {
    let (_project, hub) = hub();
    let mut client = hub.client();
    let head = format!(
        "POST {API}/tasks HTTP/1.1\r\nHost: {}\r\nTransfer-Encoding: chunked\r\n\r\n",
        hub.addr()
    );
    client.write(head.as_bytes()).expect("the hub listens");
    let piece = format!("{:x}\r\n{}\r\n", 64 * 1024, " ".repeat(64 * 1024));
    // The last piece is never sent: it is refused without knowing where the body ends.
    for _ in 0..BODY_MAX / (64 * 1024) + 1 {
        if client.write(piece.as_bytes()).is_err() {
            break;
        }
    }
    client
        .finish()
        .expect("it is answered")
        .expect_error(413, "too_large");
    serves(hub);
}

#[test]
fn headers_that_are_too_many_or_too_large_are_refused() {
    let (_project, hub) = hub();
    let large =
        |bytes: usize| Request::get(format!("{API}/status")).header("X-Filler", "x".repeat(bytes));
    send(&hub, &large(16 * 1024)).expect(200);
    send(&hub, &large(40 * 1024)).expect_error(431, "headers_too_large");
    // More than is read ahead of a request: there is no request to answer in our own words.
    assert_eq!(send(&hub, &large(100 * 1024)).status, 431);
    let many = (0..300).fold(Request::get(format!("{API}/status")), |request, _| {
        request.header("X-Many", "x")
    });
    assert_eq!(send(&hub, &many).status, 431);
    let long = Request::get(format!("{API}/status?{}", "x".repeat(100 * 1024)));
    assert!(matches!(send(&hub, &long).status, 414 | 431));
    serves(hub);
}

#[test]
fn whoever_sends_its_headers_drop_by_drop_is_cut_off_and_others_are_served_meanwhile() {
    let (_project, hub) = hub();
    let mut slow = TcpStream::connect(hub.addr()).expect("the hub listens");
    slow.set_nonblocking(true)
        .expect("a socket can be asked without waiting");
    let mut drops = b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
        .iter()
        .copied()
        .chain(std::iter::repeat(b'x'));
    let mut others = hub.client();
    let mut served = 0;
    until("the slow one is cut off", || {
        others.status();
        served += 1;
        let drop = drops.next().expect("there is always another drop");
        let sent = slow.write(&[drop]);
        let heard = slow.read(&mut [0; 64]);
        let is_waiting = heard.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        (sent.is_err() || !is_waiting).then_some(())
    });
    assert!(served > 1);
    serves(hub);
}

#[test]
fn what_is_no_json_or_too_deep_or_no_text_is_refused_in_the_one_shape() {
    let (_project, hub) = hub();
    let deep =
        |open: &str, close: &str| format!("{}{}", open.repeat(100_000), close.repeat(100_000));
    let bodies: Vec<Vec<u8>> = vec![
        deep("[", "]").into(),
        deep("{\"a\":", "}").into(),
        format!("{{\"title\":\"x\",\"unknown\":{}}}", deep("[", "]")).into(),
        b"{\"title\":\"\xff\xfe\"}".to_vec(),
        b"{\"title\":\"half a pair \\ud800\"}".to_vec(),
        b"{\"title\":\"cut o".to_vec(),
        b"{\"title\":1}".to_vec(),
        b"[]".to_vec(),
        b"".to_vec(),
        b"\0".to_vec(),
    ];
    for body in bodies {
        let request = Request::new("POST", format!("{API}/tasks")).body(body);
        send(&hub, &request).expect_error(400, "invalid_operation");
    }
    send(&hub, &Request::get(format!("{API}/tasks?limit=%ff")))
        .expect_error(400, "invalid_operation");
    send(&hub, &Request::get(format!("{API}/tasks/%ff"))).expect_error(400, "invalid_operation");
    serves(hub);
}

#[test]
fn a_request_under_another_name_or_from_another_site_is_refused() {
    let (_project, hub) = hub();
    let status = || Request::get(format!("{API}/status"));
    for host in ["evil.example", "127.0.0.1.evil.example", "8.8.8.8", ""] {
        send(&hub, &status().header("Host", host)).expect_error(421, "wrong_host");
    }
    for origin in [
        "https://evil.example",
        "null",
        "http://localhost.evil.example",
    ] {
        send(&hub, &status().header("Origin", origin)).expect_error(421, "wrong_host");
    }
    let ours = format!("http://{}", hub.addr());
    let under = |host: &str| {
        let request = status().header("Host", host).header("Origin", ours.clone());
        send(&hub, &request)
    };
    under("localhost").expect_error(421, "wrong_host");
    under(&hub.addr().to_string()).expect(200);
    serves(hub);
}

#[test]
fn unknown_paths_and_methods_are_refused_in_the_one_shape() {
    let (_project, hub) = hub();
    for path in [
        "/",
        "/api",
        "/api/v1",
        "/api/v2/tasks",
        "/api/v1/nothing",
        "/api/v1/tasks/x/nothing",
        "//",
        "/%00",
    ] {
        send(&hub, &Request::get(path)).expect_error(404, "not_found");
    }
    for (method, path) in [
        ("DELETE", "/api/v1/tasks"),
        ("PUT", "/api/v1/status"),
        ("GET", "/api/v1/tasks/claim/x/y"),
        ("POST", "/healthz"),
        ("FROBNICATE", "/api/v1/tasks"),
    ] {
        let answer = send(&hub, &Request::new(method, path));
        match answer.status {
            405 => answer.expect_error(405, "method_not_allowed"),
            _ => answer.expect_error(404, "not_found"),
        }
    }
    send(&hub, &Request::new("PUT", "/api/v1/status")).expect_error(405, "method_not_allowed");
    serves(hub);
}

#[test]
fn garbage_is_answered_or_hung_up_on() {
    let seed = Random::seed_from("SWITCHBOARD_TEST_SEED");
    println!("SWITCHBOARD_TEST_SEED={seed}");
    let mut random = Random::seeded(seed);
    let (_project, hub) = hub();
    let starts: [&[u8]; 5] = [
        b"",
        b"GET ",
        b"POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\n",
        b"\x16\x03\x01\x02",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ];
    for _ in 0..200 {
        let mut bytes = random.choose(&starts).to_vec();
        let length = random.below(4096);
        bytes.extend((0..length).map(|_| random.draw() as u8));
        // A head that ends, so that there is something to judge.
        bytes.extend_from_slice(b"\r\n\r\n");
        let mut socket = TcpStream::connect(hub.addr()).expect("the hub listens");
        socket
            .set_read_timeout(Some(PATIENCE))
            .expect("a socket has timeouts");
        let _ = socket.write_all(&bytes);
        let _ = socket.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        match socket.read_to_end(&mut answer) {
            Ok(_) => {}
            Err(error) => assert_eq!(
                error.kind(),
                std::io::ErrorKind::ConnectionReset,
                "{bytes:?}"
            ),
        }
        let is_refused = answer.is_empty()
            || answer.starts_with(b"HTTP/1.1 4")
            || answer.starts_with(b"HTTP/1.0 4");
        assert!(
            is_refused,
            "{:?} was answered {:?}",
            bytes,
            String::from_utf8_lossy(&answer)
        );
    }
    serves(hub);
}

#[test]
fn a_thousand_idle_connections_do_not_keep_a_client_from_being_served() {
    let (_project, hub) = hub();
    let idle: Vec<Client> = (0..1000)
        .map(|n| {
            let mut client = hub.client();
            // Some have said nothing yet, some have been served before.
            match n % 2 {
                0 => client.connect().expect("the hub listens"),
                _ => assert_eq!(client.get("/healthz").status, 200),
            }
            client
        })
        .collect();
    let mut client = hub.client();
    client.register("a");
    for n in 0..100 {
        let task = format!("t-{n}");
        client.create(&task);
        assert_eq!(
            client.claim("a").expect("there is a task")["id"],
            task.as_str()
        );
        client.complete("a", &task, 1);
    }
    assert!(
        hub.resident_bytes() < MEMORY_MAX,
        "{} bytes",
        hub.resident_bytes()
    );
    drop(idle);
    serves(hub);
}

#[test]
fn many_large_bodies_at_once_do_not_pile_up() {
    let (_project, hub) = hub();
    let body = json!({"title": "x", "filler": "x".repeat(BODY_MAX - 100)}).to_string();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = hub.client();
                for _ in 0..20 {
                    let request = Request::new("POST", format!("{API}/tasks")).body(body.clone());
                    client.send(&request).expect("it is answered").expect(201);
                }
            });
        }
    });
    assert!(
        hub.resident_bytes() < MEMORY_MAX,
        "{} bytes",
        hub.resident_bytes()
    );
    serves(hub);
}

fn hub() -> (Project, Hub) {
    let project = Project::new();
    let hub = project.start();
    (project, hub)
}

/// On a connection of its own, since a refusal may end it.
#[track_caller]
fn send(hub: &Hub, request: &Request) -> Answer {
    hub.client().send(request).expect("it is answered")
}

/// The same process still works as it should.
#[track_caller]
fn serves(mut hub: Hub) {
    assert!(hub.runs(), "it ended:\n{}", hub.stderr());
    let mut client = hub.client();
    let before = client.status()["tasks"]["total"].as_u64().expect("a count");
    client.create("still-here");
    assert_eq!(client.status()["tasks"]["total"], before + 1);
    assert!(!hub.stderr().contains("panicked"), "{}", hub.stderr());
    hub.stop();
}
