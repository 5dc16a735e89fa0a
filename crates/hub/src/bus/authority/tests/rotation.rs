//! New keys for old, with nobody shut out on the way.

use super::*;

async fn next(authority: &Authority, change: impl FnOnce()) {
    let mut generations = authority.generations();
    let before = *generations.borrow_and_update();
    change();
    soon(generations.wait_for(|now| *now > before))
        .await
        .unwrap();
}

// agentbus.security.mtls_identity
#[tokio::test]
async fn both_generations_work_until_the_old_authority_is_dropped() {
    let home = Home::new();
    let old = home.worker("old");
    let authority = Authority::open(home.path()).unwrap();
    let (inside, _) = connect(&authority, old.config(), DIRECTOR_NAME).await;
    let inside = inside.unwrap();
    home.registrar().rotate_authority(Old::Keep).unwrap();
    let new = home.worker("new");
    let watcher = authority.watch();
    next(&authority, || {}).await;
    assert_eq!(authority.standing(&inside), Ok(()), "nobody is put out");
    // The old one trusts only the old authority and shows a certificate of it.
    assert_eq!(old.ca.len(), 1);
    let found = connect(&authority, old.config(), DIRECTOR_NAME).await;
    assert_eq!(name_of(found), "old");
    // The new one needs nothing of the old authority.
    let mut pure = new.clone();
    pure.ca.truncate(1);
    let found = connect(&authority, pure.config(), DIRECTOR_NAME).await;
    assert_eq!(name_of(found), "new");

    next(&authority, || {
        assert_eq!(home.registrar().drop_old().unwrap().len(), 1);
    })
    .await;
    let why = soon(authority.ended(&inside)).await;
    assert_eq!(why, Refused::Orphaned(inside.name.clone()));
    let mut informed = old.clone();
    informed.ca = new.ca.clone();
    let (why, _) = refusals(connect(&authority, informed.config(), DIRECTOR_NAME).await);
    assert!(why.contains("UnknownIssuer"), "{why}");
    refusals(connect(&authority, old.config(), DIRECTOR_NAME).await);
    let found = connect(&authority, pure.config(), DIRECTOR_NAME).await;
    assert_eq!(name_of(found), "new");
    assert_eq!(home.registrar().orphans(), 1);
    drop(watcher);
}

#[tokio::test]
async fn whoever_knows_the_first_of_several_authorities_still_comes_in() {
    let home = Home::new();
    let first = home.worker("first");
    for _ in 1..AUTHORITIES_MAX {
        home.registrar().rotate_authority(Old::Keep).unwrap();
    }
    let last = home.worker("last");
    assert_eq!(last.ca.len(), AUTHORITIES_MAX);
    let authority = Authority::open(home.path()).unwrap();
    for (wallet, name) in [(&first, "first"), (&last, "last")] {
        let found = connect(&authority, wallet.config(), DIRECTOR_NAME).await;
        assert_eq!(name_of(found), name);
    }
    let said = home.registrar().rotate_authority(Old::Keep).unwrap_err();
    assert!(said.to_string().contains("--drop-old"), "{said}");
    home.registrar().drop_old().unwrap();
    home.registrar().rotate_authority(Old::Keep).unwrap();
}

#[tokio::test]
async fn an_old_authority_that_expires_is_not_trusted_any_more() {
    let mut home = Home::new();
    let old = home.issue("old", Role::Worker, AUTHORITY_FOR);
    home.now = home.now + 1000 * DAY;
    home.registrar().rotate_authority(Old::Keep).unwrap();
    let hand = Hand::at(home.now);
    let authority = Authority::open_at(home.path(), hand.clock()).unwrap();
    let _watcher = authority.watch();
    let identity = authority.identity(&old.cert).unwrap();
    hand.pass(AUTHORITY_FOR - 1000 * DAY);
    let why = soon(authority.ended(&identity)).await;
    assert_eq!(why, Refused::Expired(identity.name));
    // And at the next rotation it is gone.
    home.now = home.now + AUTHORITY_FOR - 1000 * DAY;
    home.registrar().rotate_authority(Old::Keep).unwrap();
    let held = Overview::read(home.path(), home.now).unwrap().authorities;
    assert_eq!(held.len(), 2);
}

#[tokio::test]
async fn a_leaked_authority_is_replaced_without_a_transition() {
    let home = Home::new();
    let old = home.worker("old");
    home.registrar().rotate_authority(Old::Drop).unwrap();
    let new = home.worker("new");
    assert_eq!(new.ca.len(), 1);
    let authority = Authority::open(home.path()).unwrap();
    refusals(connect(&authority, old.config(), DIRECTOR_NAME).await);
    let mut informed = old;
    informed.ca = new.ca.clone();
    refusals(connect(&authority, informed.config(), DIRECTOR_NAME).await);
    let found = connect(&authority, new.config(), DIRECTOR_NAME).await;
    assert_eq!(name_of(found), "new");
}

#[tokio::test]
async fn a_new_directors_certificate_is_shown_without_a_restart() {
    let home = Home::new();
    let worker = home.worker("w");
    let authority = Authority::open(home.path()).unwrap();
    let _watcher = authority.watch();
    refusals(connect(&authority, worker.config(), "bus.example").await);
    next(&authority, || {
        let hosts = ["bus.example".to_owned(), "10.1.2.3".to_owned()];
        let (_, begun) = Registrar::init(home.path(), &hosts, home.now).unwrap();
        assert_eq!(
            (begun.authority, begun.director),
            (Found::There, Found::Replaced)
        );
    })
    .await;
    for host in ["bus.example", "10.1.2.3", "localhost"] {
        let found = connect(&authority, worker.config(), host).await;
        assert_eq!(name_of(found), "w");
    }
    let before = home.read("director.pem");
    next(&authority, || home.registrar().rotate_director().unwrap()).await;
    assert_ne!(home.read("director.pem"), before);
    let found = connect(&authority, worker.config(), "bus.example").await;
    assert_eq!(name_of(found), "w");
}

#[tokio::test]
async fn a_rotation_that_was_cut_short_is_usable_and_can_be_finished() {
    let home = Home::new();
    let old = home.worker("old");
    let files = ["ca.pem", "ca.key", "chain.pem", "director.pem"];
    let before: Vec<_> = files
        .map(|name| std::fs::read_to_string(home.file(name)).ok())
        .into();
    home.registrar().rotate_authority(Old::Keep).unwrap();
    let after: Vec<_> = files.map(|name| home.read(name)).into();
    let both_keys = format!("{}{}", after[1], before[1].as_ref().unwrap());
    // The order in which they are written: keys, chain, authorities, director, key.
    for written in 1..=4 {
        for (place, name) in [(2, "chain.pem"), (0, "ca.pem"), (3, "director.pem")]
            .into_iter()
            .enumerate()
            .map(|(at, (place, name))| ((place, at + 2 <= written), name))
        {
            let (place, is_new) = place;
            match (is_new, &before[place]) {
                (true, _) => home.write(name, &after[place]),
                (false, Some(text)) => home.write(name, text),
                (false, None) => std::fs::remove_file(home.file(name)).unwrap(),
            }
        }
        home.write("ca.key", &both_keys);
        let authority = Authority::open(home.path()).unwrap();
        let found = connect(&authority, old.config(), DIRECTOR_NAME).await;
        assert_eq!(name_of(found), "old", "after {written} files");
        let name = format!("after-{written}");
        let new = home.worker(&name);
        let authority = Authority::open(home.path()).unwrap();
        let found = connect(&authority, new.config(), DIRECTOR_NAME).await;
        assert_eq!(name_of(found), name);
    }
    home.write("director.pem", before[3].as_ref().unwrap());
    let (_, begun) = Registrar::init(home.path(), &[], home.now).unwrap();
    assert_eq!(
        begun.director,
        Found::Replaced,
        "it was of the old authority"
    );
}

#[test]
fn a_certificate_never_outlives_its_authority() {
    let mut home = Home::new();
    home.now = home.now + (AUTHORITY_FOR - DAY);
    let name: Name = "w".parse().unwrap();
    let order = |home: &Home| {
        let order = Order {
            name: &name,
            role: Role::Worker,
            lasts: 2 * DAY,
            out: None,
            existing: Existing::Replace,
        };
        home.registrar().issue(&order)
    };
    let issued = order(&home).unwrap();
    assert!(issued.cut_short);
    assert!(issued.record.not_after <= home.now + DAY);
    home.now = home.now + DAY;
    let said = order(&home).unwrap_err().to_string();
    assert!(said.contains("rotate --authority"), "{said}");
    let said = Authority::open_at(home.path(), Hand::at(home.now).clock());
    assert!(said.unwrap_err().to_string().contains("rotate --authority"));
    home.registrar().rotate_authority(Old::Keep).unwrap();
    assert!(!order(&home).unwrap().cut_short);
}
