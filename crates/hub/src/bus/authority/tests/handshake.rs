//! Who is let in, and who is put out again.

use super::*;

// agentbus.security.mtls_identity
#[tokio::test]
async fn a_worker_and_an_operator_come_in_under_their_own_names() {
    let home = Home::new();
    let worker = home.worker("job-7/builder");
    let operator = home.issue("ann", Role::Operator, DAY);
    let authority = Authority::open(home.path()).unwrap();
    let (identity, read) = connect(&authority, worker.config(), DIRECTOR_NAME).await;
    assert_eq!(read.unwrap(), b'!');
    let identity = identity.unwrap();
    assert_eq!(identity.name.as_str(), "job-7/builder");
    assert_eq!(identity.role, Role::Worker);
    assert_eq!(identity.serial, worker.serial);
    assert_eq!(authority.standing(&identity), Ok(()));
    // By an address, too.
    let (identity, _) = connect(&authority, operator.config(), "127.0.0.1").await;
    assert_eq!(identity.unwrap().role, Role::Operator);
}

#[tokio::test]
async fn nobody_comes_in_without_a_certificate() {
    let home = Home::new();
    let worker = home.worker("w");
    let authority = Authority::open(home.path()).unwrap();
    let config = worker.config_without_certificate();
    let (why, told) = refusals(connect(&authority, config, DIRECTOR_NAME).await);
    assert!(why.contains("no certificates"), "{why}");
    assert!(told.contains("CertificateRequired"), "{told}");
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_refused_on_both_sides() {
    let (home, other) = (Home::new(), Home::new());
    let authority = Authority::open(home.path()).unwrap();
    let mut stranger = other.worker("w");
    let (_, told) = refusals(connect(&authority, stranger.config(), DIRECTOR_NAME).await);
    assert!(told.contains("UnknownIssuer"), "{told}");
    // Even one that trusts this director.
    stranger.ca = home.worker("x").ca;
    let (why, told) = refusals(connect(&authority, stranger.config(), DIRECTOR_NAME).await);
    assert!(why.contains("UnknownIssuer"), "{why}");
    assert!(told.contains("UnknownCA"), "{told}");
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let home = Home::new();
    let worker = home.issue("w", Role::Worker, DAY);
    let hand = Hand::at(home.now);
    let authority = Authority::open_at(home.path(), hand.clock()).unwrap();
    hand.pass(DAY - Duration::from_secs(2));
    let found = connect(&authority, worker.config(), DIRECTOR_NAME).await;
    assert_eq!(name_of(found), "w");
    hand.pass(Duration::from_secs(2));
    let (why, told) = refusals(connect(&authority, worker.config(), DIRECTOR_NAME).await);
    assert!(why.contains("Expired"), "{why}");
    assert!(told.contains("CertificateExpired"), "{told}");
}

// agentbus.security.mtls_identity
#[tokio::test]
async fn a_revoked_certificate_is_put_out_and_not_let_in_again() {
    let home = Home::new();
    let (worker, other) = (home.worker("w"), home.worker("v"));
    let authority = Authority::open(home.path()).unwrap();
    let _watcher = authority.watch();
    let (inside, _) = connect(&authority, worker.config(), DIRECTOR_NAME).await;
    let inside = inside.unwrap();
    home.registrar().revoke("w", Some("laptop lost")).unwrap();
    let why = soon(authority.ended(&inside)).await;
    assert_eq!(why, Refused::Revoked(inside.name.clone()));
    let (why, told) = refusals(connect(&authority, worker.config(), DIRECTOR_NAME).await);
    assert!(why.contains("Revoked"), "{why}");
    assert!(told.contains("CertificateRevoked"), "{told}");
    // The others are not touched, and a new certificate of the same name is good.
    let found = connect(&authority, other.config(), DIRECTOR_NAME).await;
    assert_eq!(name_of(found), "v");
    let mut generations = authority.generations();
    let before = *generations.borrow_and_update();
    let again = home.worker("w");
    soon(generations.wait_for(|now| *now > before))
        .await
        .unwrap();
    let found = connect(&authority, again.config(), DIRECTOR_NAME).await;
    assert_eq!(name_of(found), "w");
}

#[tokio::test]
async fn a_certificate_that_expires_while_connected_is_put_out() {
    let home = Home::new();
    let worker = home.issue("w", Role::Worker, DAY);
    let hand = Hand::at(home.now);
    let authority = Authority::open_at(home.path(), hand.clock()).unwrap();
    let _watcher = authority.watch();
    let (inside, _) = connect(&authority, worker.config(), DIRECTOR_NAME).await;
    let inside = inside.unwrap();
    hand.pass(DAY);
    let why = soon(authority.ended(&inside)).await;
    assert_eq!(why, Refused::Expired(inside.name.clone()));
}

#[tokio::test]
async fn a_certificate_that_is_not_in_the_list_does_not_count() {
    let home = Home::new();
    let before = home.read("index.json");
    let worker = home.worker("w");
    home.write("index.json", &before);
    let authority = Authority::open(home.path()).unwrap();
    let (why, _) = refusals(connect(&authority, worker.config(), DIRECTOR_NAME).await);
    assert!(why.contains("UnknownIssuer"), "{why}");
}

#[tokio::test]
async fn a_worker_cannot_pose_as_the_director() {
    let home = Home::new();
    // Its common name is one that old clients might compare.
    let (worker, victim) = (home.worker(DIRECTOR_NAME), home.worker("v"));
    let key = PrivateKeyDer::from_pem_slice(&worker.key).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let posing = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(worker.cert.clone(), key)
        .unwrap();
    let (near, far) = tokio::io::duplex(64 * 1024);
    let host = ServerName::try_from(DIRECTOR_NAME).unwrap();
    let (_, read) = tokio::join!(
        TlsAcceptor::from(Arc::new(posing)).accept(near),
        TlsConnector::from(Arc::new(victim.config())).connect(host, far),
    );
    let told = read.unwrap_err().to_string();
    assert!(told.contains("invalid peer certificate"), "{told}");
}

#[tokio::test]
async fn the_directors_own_certificate_lets_nobody_in() {
    let home = Home::new();
    let mut thief = home.worker("w");
    thief.cert = certificates(&home.file("director.pem"));
    thief.key = home.read("director.pem").into_bytes();
    let authority = Authority::open(home.path()).unwrap();
    let (why, _) = refusals(connect(&authority, thief.config(), DIRECTOR_NAME).await);
    assert!(why.contains("invalid peer certificate"), "{why}");
}

#[tokio::test]
async fn whoever_says_nothing_is_not_waited_for() {
    let home = Home::new();
    let authority = Authority::open(home.path()).unwrap();
    let (near, _far) = tokio::io::duplex(1024);
    let limit = Duration::from_millis(1);
    let why = authority.admit_within(near, limit).await.unwrap_err();
    assert_eq!(why, Refused::TooSlow);
}

#[tokio::test]
async fn what_is_no_tls_is_refused_with_a_sentence() {
    let home = Home::new();
    let authority = Authority::open(home.path()).unwrap();
    let (near, mut far) = tokio::io::duplex(1024);
    far.write_all(b"{\"message_type\":\"protocol_hello.v1\"}\n")
        .await
        .unwrap();
    let why = authority.admit(near).await.unwrap_err().to_string();
    assert!(why.starts_with("the TLS handshake failed"), "{why}");
    let (near, far) = tokio::io::duplex(1024);
    drop(far);
    assert!(authority.admit(near).await.is_err());
}

#[test]
fn no_certificate_is_no_identity() {
    let home = Home::new();
    let authority = Authority::open(home.path()).unwrap();
    assert_eq!(authority.identity(&[]), Err(Refused::NoCertificate));
    let garbage = CertificateDer::from(vec![0x30, 0x82, 0xff]);
    assert_eq!(authority.identity(&[garbage]), Err(Refused::Unreadable));
}
