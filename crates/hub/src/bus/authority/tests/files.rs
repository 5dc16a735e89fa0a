//! The files: private, never half written, and complained about in sentences.

use super::*;

#[test]
fn making_an_authority_twice_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let now = Clock::system().now();
    let begun = || Registrar::init(dir.path(), &[], now).unwrap().1;
    let first = begun();
    assert_eq!(
        (first.authority, first.director),
        (Found::Made, Found::Made)
    );
    let read = |name: &str| std::fs::read_to_string(dir.path().join("bus").join(name)).unwrap();
    let files = ["ca.pem", "ca.key", "director.pem", "index.json"];
    let before = files.map(read);
    let second = begun();
    assert_eq!(
        (second.authority, second.director),
        (Found::There, Found::There)
    );
    assert_eq!(files.map(read), before);
}

#[test]
fn keys_are_for_the_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new();
    let name: Name = "w".parse().unwrap();
    let order = Order {
        name: &name,
        role: Role::Worker,
        lasts: DAY,
        out: None,
        existing: Existing::Refuse,
    };
    let issued = home.registrar().issue(&order).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for folder in ["", "certs", "issued", "issued/w"] {
        assert_eq!(mode(&home.file(folder)), 0o700, "{folder}");
    }
    for private in [home.file("ca.key"), home.file("director.pem"), issued.key] {
        assert_eq!(mode(&private), 0o600, "{}", private.display());
    }
    assert_eq!(mode(&issued.cert), 0o644);
    assert!(
        home.file(&format!("certs/{}.pem", issued.record.serial))
            .is_file()
    );
}

#[test]
fn a_second_certificate_is_said_and_files_are_not_written_over() {
    let home = Home::new();
    let name: Name = "w".parse().unwrap();
    let mut order = Order {
        name: &name,
        role: Role::Worker,
        lasts: DAY,
        out: None,
        existing: Existing::Refuse,
    };
    let first = home.registrar().issue(&order).unwrap();
    assert!(first.also_live.is_empty());
    let said = home.registrar().issue(&order).unwrap_err().to_string();
    assert!(said.contains("w.pem exists"), "{said}");
    order.existing = Existing::Replace;
    let second = home.registrar().issue(&order).unwrap();
    assert_eq!(second.also_live, [first.record.serial]);
    // The same id in another role is somebody else.
    order.role = Role::Operator;
    assert!(home.registrar().issue(&order).unwrap().also_live.is_empty());
    assert_eq!(home.registrar().role_of(&name), Some(Role::Operator));
}

#[test]
fn another_authoritys_file_is_not_written_over() {
    let (home, other) = (Home::new(), Home::new());
    let out = tempfile::tempdir().unwrap();
    let issue = |home: &Home, name: &str, existing| {
        let name: Name = name.parse().unwrap();
        home.registrar().issue(&Order {
            name: &name,
            role: Role::Worker,
            lasts: DAY,
            out: Some(out.path()),
            existing,
        })
    };
    issue(&home, "a", Existing::Refuse).unwrap();
    issue(&home, "b", Existing::Refuse).unwrap();
    home.registrar().rotate_authority(Old::Keep).unwrap();
    issue(&home, "c", Existing::Refuse).unwrap();
    let said = issue(&other, "d", Existing::Refuse).unwrap_err();
    assert!(said.to_string().contains("ca.pem exists"), "{said}");
    assert!(!out.path().join("d.key").exists());
    issue(&other, "d", Existing::Replace).unwrap();
}

#[test]
fn revoking_is_by_serial_number_or_by_id_and_the_first_word_stands() {
    let home = Home::new();
    let one = home.worker("w").serial;
    let two = home.worker("w").serial;
    let revoke = |which: &str, reason| home.registrar().revoke(which, reason);
    let done = revoke(one.as_str(), Some("lost")).unwrap();
    assert_eq!(done.len(), 1);
    let again = revoke(one.as_str(), Some("other")).unwrap();
    assert_eq!(
        again[0].revoked.as_ref().unwrap().reason.as_deref(),
        Some("lost")
    );
    let rest = revoke("w", None).unwrap();
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0].serial, two);
    assert!(matches!(
        revoke("w", None),
        Err(AuthorityError::NoneLive { .. })
    ));
    assert!(matches!(
        revoke("nobody", None),
        Err(AuthorityError::Unknown { .. })
    ));
    let long = "x".repeat(REASON_BYTES_MAX + 1);
    let third = home.worker("w").serial;
    for bad in ["two\nlines", &long] {
        let said = revoke(third.as_str(), Some(bad));
        assert!(matches!(said, Err(AuthorityError::BadReason { .. })));
    }
    for length in [REASON_BYTES_MAX - 1, REASON_BYTES_MAX] {
        revoke(third.as_str(), Some(&long[..length])).unwrap();
    }
}

#[test]
fn the_overview_marks_what_does_not_count() {
    let mut home = Home::new();
    home.issue("old", Role::Worker, 40 * DAY);
    home.registrar().rotate_authority(Old::Drop).unwrap();
    home.issue("short", Role::Worker, DAY);
    home.issue("soon", Role::Worker, 10 * DAY);
    home.issue("gone", Role::Operator, 40 * DAY);
    home.issue("good", Role::Worker, 40 * DAY);
    home.registrar().revoke("gone", None).unwrap();
    home.now = home.now + DAY;
    let seen = Overview::read(home.path(), home.now).unwrap();
    let states: Vec<_> = seen
        .certificates
        .iter()
        .map(|(record, state)| (record.name.as_str(), *state))
        .collect();
    assert_eq!(
        states,
        [
            ("good", State::Live),
            ("gone", State::Revoked),
            ("soon", State::Expiring),
            ("short", State::Expired),
            ("old", State::Orphaned),
        ]
    );
    assert_eq!(seen.director.state, State::Live);
    assert!(seen.hosts.iter().any(|host| host == DIRECTOR_NAME));
    assert_eq!(seen.authorities.len(), 1);
}

#[test]
fn names_of_the_director_are_checked_and_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let now = Clock::system().now();
    let init = |hosts: &[String]| Registrar::init(dir.path(), hosts, now).map(|_| ());
    let said = init(&["not a host".to_owned()]).unwrap_err().to_string();
    assert!(said.contains("not a host"), "{said}");
    assert!(!dir.path().join("bus").exists(), "nothing was begun");
    // Four are there by themselves.
    let hosts: Vec<_> = (0..HOSTS_MAX - 3)
        .map(|number| format!("h{number}"))
        .collect();
    init(&hosts[..hosts.len() - 2]).unwrap();
    init(&hosts[..hosts.len() - 1]).unwrap();
    assert!(matches!(
        init(&hosts),
        Err(AuthorityError::TooManyHosts { .. })
    ));
}

#[test]
fn without_an_authority_the_next_step_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let now = Clock::system().now();
    for said in [
        Authority::open(dir.path()).unwrap_err(),
        Registrar::open(dir.path(), now).unwrap_err(),
        Overview::read(dir.path(), now).unwrap_err(),
    ] {
        assert!(said.to_string().contains("switchboard cert init"), "{said}");
    }
    assert!(!dir.path().join("bus").exists(), "looking makes nothing");
}

#[test]
fn a_broken_or_missing_file_is_named() {
    let home = Home::new();
    home.worker("w");
    let open = || Authority::open(home.path());
    for name in ["ca.pem", "director.pem", "index.json"] {
        let good = home.read(name);
        for bad in ["", "garbage", &good[..good.len() / 2]] {
            home.write(name, bad);
            let said = open().unwrap_err().to_string();
            assert!(said.contains(name), "{said}");
        }
        std::fs::remove_file(home.file(name)).unwrap();
        let said = open().unwrap_err().to_string();
        assert!(said.contains("cert init"), "{said}");
        home.write(name, &good);
        open().unwrap();
    }
    // Bytes that are no text, and a file without end.
    let good = home.read("index.json");
    std::fs::write(home.file("index.json"), [0xff, 0xfe]).unwrap();
    assert!(open().unwrap_err().to_string().contains("index.json"));
    home.write("index.json", &good);
    let good = home.read("ca.pem");
    home.write("ca.pem", &"x".repeat(1024 * 1024));
    assert!(open().unwrap_err().to_string().contains("larger"));
    home.write("ca.pem", &good);
    // The key of somebody else.
    let other = Home::new();
    let (mine, theirs) = (home.read("director.pem"), other.read("director.pem"));
    let (cert, _) = mine.split_once("-----BEGIN PRIVATE").unwrap();
    let (_, key) = theirs.split_once("-----BEGIN PRIVATE").unwrap();
    home.write("director.pem", &format!("{cert}-----BEGIN PRIVATE{key}"));
    let said = open().unwrap_err().to_string();
    assert!(said.contains("cannot be used for TLS"), "{said}");
}

#[test]
fn an_authority_that_was_lost_is_not_silently_made_anew() {
    let home = Home::new();
    home.worker("w");
    std::fs::remove_file(home.file("ca.pem")).unwrap();
    let said = Registrar::init(home.path(), &[], home.now).unwrap_err();
    assert!(matches!(said, AuthorityError::Lost { .. }), "{said}");
}

#[test]
fn a_list_that_was_lost_lets_nobody_in_and_can_be_begun_anew() {
    let home = Home::new();
    let worker = home.worker("w");
    std::fs::remove_file(home.file("index.json")).unwrap();
    let said = Registrar::open(home.path(), home.now).unwrap_err();
    assert!(said.to_string().contains("index.json is missing"), "{said}");
    let (_, begun) = Registrar::init(home.path(), &[], home.now).unwrap();
    assert_eq!((begun.authority, begun.list), (Found::There, Found::Made));
    let authority = Authority::open(home.path()).unwrap();
    let said = authority.identity(&worker.cert);
    assert_eq!(said, Err(Refused::Unknown(worker.serial)));
}

#[test]
fn without_the_authoritys_key_nothing_is_signed_but_all_else_goes_on() {
    let home = Home::new();
    home.worker("w");
    let other = Home::new();
    for key in [None, Some("garbage".to_owned()), Some(other.read("ca.key"))] {
        match key {
            Some(key) => home.write("ca.key", &key),
            None => std::fs::remove_file(home.file("ca.key")).unwrap(),
        }
        let before = home.read("ca.pem");
        let said = home.registrar().rotate_authority(Old::Keep).unwrap_err();
        assert!(matches!(said, AuthorityError::NoKey { .. }), "{said}");
        assert!(home.registrar().rotate_director().is_err());
        assert_eq!(home.read("ca.pem"), before);
        Authority::open(home.path()).unwrap();
    }
    home.registrar().revoke("w", None).unwrap();
    home.registrar().rotate_authority(Old::Drop).unwrap();
    home.worker("v");
}

#[tokio::test]
async fn files_that_cannot_be_read_leave_the_last_good_ones_in_force() {
    let home = Home::new();
    let worker = home.worker("w");
    let authority = Authority::open(home.path()).unwrap();
    let _watcher = authority.watch();
    let mut generations = authority.generations();
    let good = home.read("index.json");
    for (name, bad) in [("index.json", "{"), ("ca.pem", ""), ("director.pem", "x")] {
        let before = *generations.borrow_and_update();
        let kept = home.read(name);
        home.write(name, bad);
        soon(generations.wait_for(|now| *now > before))
            .await
            .unwrap();
        let found = connect(&authority, worker.config(), DIRECTOR_NAME).await;
        assert_eq!(name_of(found), "w");
        home.write(name, &kept);
    }
    assert_eq!(home.read("index.json"), good);
    let identity = authority.identity(&worker.cert).unwrap();
    home.registrar().revoke("w", None).unwrap();
    soon(authority.ended(&identity)).await;
}

#[test]
fn changes_wait_for_each_other() {
    let home = Home::new();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let home = &home;
            scope.spawn(move || home.worker(&format!("w{number}")));
        }
    });
    let seen = Overview::read(home.path(), home.now).unwrap();
    assert_eq!(seen.certificates.len(), 8);
}
