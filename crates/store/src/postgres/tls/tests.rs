//! Whom each mode of TLS believes.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::Error;
use crate::postgres::Address;

/// Signed `LEAF`, which is for db.example; `OWN` signed itself, as PostgreSQL's manual shows it, for db.example.
const CA: &str = "-----BEGIN CERTIFICATE-----
MIIBcTCCARegAwIBAgIULIuhQU0UgeszXV3fuPq3bZ+ikJkwCgYIKoZIzj0EAwIw
DTELMAkGA1UEAwwCY2EwIBcNMjYxMTE1MTMxMjQ5WhgPMjEyNjEwMjIxMzEyNDla
MA0xCzAJBgNVBAMMAmNhMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEHBcl82ti
jdJ0V3mJIn/8LrB3EIUKNvqXuKMfKohCLlZOwVaLlx2gS2G7xaJxZd8VJx4d+Ldo
mSIj5cUkRmrmpaNTMFEwHQYDVR0OBBYEFDMIfHXvK03NNOigsjneXundlvRVMB8G
A1UdIwQYMBaAFDMIfHXvK03NNOigsjneXundlvRVMA8GA1UdEwEB/wQFMAMBAf8w
CgYIKoZIzj0EAwIDSAAwRQIhALDRyFUpaQ6MyLnkIpOjUbgOUPxhHe+RRrgwYA7m
8WM/AiBO7F9z1QRyPHK7RuVzqoKbS13TYLP2MtCXlNmzdQSmpQ==
-----END CERTIFICATE-----";
const LEAF: &str = "-----BEGIN CERTIFICATE-----
MIIBcTCCARegAwIBAgIBAjAKBggqhkjOPQQDAjANMQswCQYDVQQDDAJjYTAgFw0y
NjExMTUxMzEyNDlaGA8yMTI2MTAyMjEzMTI0OVowDzENMAsGA1UEAwwEbGVhZjBZ
MBMGByqGSM49AgEGCCqGSM49AwEHA0IABDPA7qA9Db6b5OYclHo9KOl9JH8ZBbkw
GoyzrI+KtsvHOWlP0nZm8VPiFoBMffwxWn9OUccY8l/d5gkMbHqGNFmjZDBiMBUG
A1UdEQQOMAyCCmRiLmV4YW1wbGUwCQYDVR0TBAIwADAdBgNVHQ4EFgQU32oAHey4
qNzpEAc0SAbZY/3DkKgwHwYDVR0jBBgwFoAUMwh8de8rTc006KCyOd5e6d2W9FUw
CgYIKoZIzj0EAwIDSAAwRQIhALJ99zl20SLTM7nHE2hZK/N9HpPzCzKereQnThck
WAcYAiAg4wlMZScnYhGY1M/z5S6fAMUqwjXOFjlBqYsHIroXFA==
-----END CERTIFICATE-----";
const OWN: &str = "-----BEGIN CERTIFICATE-----
MIIBjTCCATKgAwIBAgIUBo17QLqSgM7ixfj0zICAujlGtKswCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEc2VsZjAgFw0yNjExMTUxMzEyNDlaGA8yMTI2MTAyMjEzMTI0
OVowDzENMAsGA1UEAwwEc2VsZjBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABHVK
+5ess2IYH7z3oqL9UuGHe9wkAdWMbkgwwERRpk4AV6WcazF/1nU2fdt6fKDStj1Z
pY9CIaWmkPSRA8Q2q8mjajBoMB0GA1UdDgQWBBStUdOk+2j3o+k0yvZz2y3rvewl
EzAfBgNVHSMEGDAWgBStUdOk+2j3o+k0yvZz2y3rvewlEzAPBgNVHRMBAf8EBTAD
AQH/MBUGA1UdEQQOMAyCCmRiLmV4YW1wbGUwCgYIKoZIzj0EAwIDSQAwRgIhAP3l
2f1EUk05heFoWzQumRSG+BmFv9cttMie40LjE+NPAiEAsgfN9GLFz2xkLPaMyKiG
NqYVquEibb+cREqtaif+Msc=
-----END CERTIFICATE-----";
/// The day after they were made.
const THEN: u64 = 1_794_834_769;

fn wishes(mode: Option<Mode>, root: Option<&str>) -> Wishes {
    Wishes {
        mode,
        root: root.map(str::to_owned),
        ..Wishes::default()
    }
}

#[test]
fn each_mode_believes_whom_libpq_believes() {
    let home = tempfile::tempdir().unwrap();
    let file = || Roots::File(PathBuf::from("/ca"));
    let usual = home.path().join(".postgresql/root.crt");
    let trust_in = |mode, root| trust(&wishes(mode, root), Some(home.path()));
    use Mode::{Disable, Prefer, Require, VerifyCa, VerifyFull};
    #[rustfmt::skip]
    let cases = [
        (None, None, Prefer, Trust::Anyone),
        (None, Some("/ca"), Prefer, Trust::Chain(file())),
        (None, Some("system"), VerifyFull, Trust::ChainAndName(Roots::System)),
        (Some(Disable), Some("/ca"), Disable, Trust::Anyone),
        (Some(Require), None, Require, Trust::Anyone),
        (Some(Require), Some("/ca"), Require, Trust::Chain(file())),
        (Some(VerifyCa), Some("/ca"), VerifyCa, Trust::Chain(file())),
        (Some(VerifyCa), None, VerifyCa, Trust::Chain(Roots::System)),
        (Some(VerifyFull), Some("/ca"), VerifyFull, Trust::ChainAndName(file())),
        (Some(VerifyFull), None, VerifyFull, Trust::ChainAndName(Roots::System)),
    ];
    for (mode, root, means, expected) in cases {
        assert_eq!(trust_in(mode, root), (means, expected));
    }
    std::fs::create_dir(usual.parent().unwrap()).unwrap();
    std::fs::write(&usual, CA).unwrap();
    let theirs = || Roots::File(usual.clone());
    assert_eq!(trust_in(Some(VerifyCa), None).1, Trust::Chain(theirs()));
    assert_eq!(
        trust_in(Some(VerifyFull), None).1,
        Trust::ChainAndName(theirs())
    );
    assert_eq!(trust_in(Some(Require), None).1, Trust::Anyone);
}

#[test]
fn a_certificate_is_checked_as_far_as_the_mode_says() {
    let folder = tempfile::tempdir().unwrap();
    let check = |trust: fn(Roots) -> Trust, root: &str, server: &str, name: &str, at: u64| {
        let file = folder.path().join("root.crt");
        std::fs::write(&file, root).unwrap();
        let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
        let verifier = Verifier::new(trust(Roots::File(file)), algorithms).unwrap();
        let server = CertificateDer::from_pem_slice(server.as_bytes()).unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let at = UnixTime::since_unix_epoch(Duration::from_secs(at));
        verifier
            .verify_server_cert(&server, &[], &name, &[], at)
            .is_ok()
    };
    let too_late = THEN + 200 * 365 * 86_400;
    #[rustfmt::skip]
    let cases = [
        (CA, LEAF, "db.example", THEN, true, true),
        (CA, LEAF, "other.example", THEN, true, false),
        (CA, LEAF, "db.example", too_late, false, false),
        (OWN, LEAF, "db.example", THEN, false, false),
        (CA, OWN, "db.example", THEN, false, false),
        (OWN, OWN, "db.example", THEN, true, true),
        (OWN, OWN, "other.example", THEN, true, false),
        (OWN, OWN, "db.example", too_late, false, false),
    ];
    for (root, server, name, at, by_chain, by_name) in cases {
        assert_eq!(
            check(Trust::Chain, root, server, name, at),
            by_chain,
            "{server} {name}"
        );
        assert_eq!(
            check(Trust::ChainAndName, root, server, name, at),
            by_name,
            "{server} {name}"
        );
        assert!(check(|_| Trust::Anyone, root, server, name, at));
    }
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (empty, cert) = (folder.path().join("empty"), folder.path().join("cert"));
    std::fs::write(&empty, "").unwrap();
    std::fs::write(&cert, LEAF).unwrap();
    let (empty, cert) = (empty.display(), cert.display());
    #[rustfmt::skip]
    let cases = [
        ("sslrootcert=/no/ca".to_owned(), "cannot read the certificate /no/ca: No such file".to_owned()),
        (format!("sslrootcert={empty}"), format!("cannot read the certificate {empty}: the file has no section")),
        (format!("sslcert={cert}&sslkey={empty}"), format!("cannot read the key {empty}: the file has no unencrypted key")),
        (format!("sslcert={cert}&sslkey=/no/key"), "cannot read the key /no/key: No such file".to_owned()),
    ];
    for (parameters, sentence) in cases {
        let error = Address::parse(&format!("postgres://a?{parameters}")).unwrap_err();
        assert!(error.to_string().contains(&sentence), "{error}");
        assert!(Address::parse(&format!("postgres://a?sslmode=disable&{parameters}")).is_ok());
    }
}

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap().to_string();
    (listener, at)
}

/// Answers the question for TLS.
async fn asked_for_tls(listener: &TcpListener, answer: &[u8]) -> TcpStream {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut question = [0; 8];
    stream.read_exact(&mut question).await.unwrap();
    assert_eq!(question, [0, 0, 0, 8, 4, 210, 22, 47]);
    stream.write_all(answer).await.unwrap();
    stream
}

/// Lets the client in, without a password, and answers its question whether the server is read-only.
async fn let_in(mut stream: TcpStream, read_only: &[u8]) {
    let length = stream.read_u32().await.unwrap();
    let mut startup = vec![0; length as usize - 4];
    stream.read_exact(&mut startup).await.unwrap();
    assert_eq!(startup[..4], [0, 3, 0, 0]);
    stream
        .write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I")
        .await
        .unwrap();
    let mut query = [0; 5];
    if stream.read_exact(&mut query).await.is_ok() && query[0] == b'Q' {
        let mut row =
            b"T\0\0\0\x1a\0\x01r\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0D\0\0\0"
                .to_vec();
        row.push(10 + read_only.len() as u8);
        row.extend([0, 1, 0, 0, 0, read_only.len() as u8]);
        row.extend(read_only);
        row.extend(b"C\0\0\0\x09SHOW\0Z\0\0\0\x05I");
        stream.write_all(&row).await.unwrap();
    }
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

fn refuse(sqlstate: &str) -> Vec<u8> {
    let fields = format!("SFATAL\0C{sqlstate}\0Mno\0\0");
    let length = 4 + fields.len() as u32;
    [&b"E"[..], &length.to_be_bytes(), fields.as_bytes()].concat()
}

async fn connect(url: String) -> Result<(), Error> {
    Address::parse(&url).unwrap().connect().await.map(drop)
}

#[tokio::test]
async fn tls_that_fails_is_done_without_only_if_it_was_a_preference() {
    for mode in ["prefer", "allow", "require", "verify-full"] {
        let falls_back = matches!(mode, "prefer" | "allow");
        let (listener, at) = listen().await;
        let server = async {
            drop(asked_for_tls(&listener, b"Snonsense, no TLS at all").await);
            if falls_back {
                let_in(listener.accept().await.unwrap().0, b"off").await;
            }
        };
        let root = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(root.path(), CA).unwrap();
        let url = format!(
            "postgres://u@{at}/l?sslmode={mode}&sslrootcert={}",
            root.path().display()
        );
        let (connected, ()) = tokio::join!(connect(url), server);
        assert_eq!(connected.is_ok(), falls_back, "{mode}: {connected:?}");
    }
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_tls_is_required() {
    let (listener, at) = listen().await;
    let url = format!("postgres://u@{at}/l?sslmode=require");
    let (connected, _) = tokio::join!(connect(url), asked_for_tls(&listener, b"N"));
    let error = connected.unwrap_err();
    assert!(
        matches!(&error, Error::Open(why) if why.contains("does not support TLS")),
        "{error}"
    );
}

#[tokio::test]
async fn only_what_waiting_does_not_mend_is_final() {
    for sqlstate in ["28P01", "3D000", "57P03", "53300"] {
        let lasting = matches!(sqlstate, "28P01" | "3D000");
        let (listener, at) = listen().await;
        let server = async {
            let mut stream = asked_for_tls(&listener, b"N").await;
            stream.write_all(&refuse(sqlstate)).await.unwrap();
            let _ = stream.read_to_end(&mut Vec::new()).await;
        };
        let (connected, ()) = tokio::join!(connect(format!("postgres://u:p@{at}/l")), server);
        match connected.unwrap_err() {
            Error::Open(_) => assert!(lasting, "{sqlstate}"),
            Error::Unavailable(_) => assert!(!lasting, "{sqlstate}"),
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn of_several_servers_the_one_that_takes_writes_is_found() {
    let (silent, standby, primary) = (listen().await, listen().await, listen().await);
    let hosts = ["127.0.0.1:1", &silent.1, &standby.1, &primary.1].join(",");
    let at_standby = async { let_in(standby.0.accept().await.unwrap().0, b"on").await };
    let at_primary = async { let_in(primary.0.accept().await.unwrap().0, b"off").await };
    let url = format!("postgres://u@{hosts}/l?sslmode=disable");
    let (connected, (), ()) = tokio::join!(connect(url), at_standby, at_primary);
    connected.unwrap();
}

#[tokio::test]
async fn when_no_server_is_reached_the_reason_of_each_is_told() {
    let url = "postgres://u:s3cr@127.0.0.1:1,127.0.0.1:2/l";
    let Err(Error::Unavailable(why)) = connect(url.to_owned()).await else {
        panic!("nothing listens there")
    };
    let start = "cannot reach postgres://u@127.0.0.1:1,127.0.0.1:2/l: 127.0.0.1:1: ";
    assert!(
        why.starts_with(start) && why.contains("; 127.0.0.1:2: "),
        "{why}"
    );
}
