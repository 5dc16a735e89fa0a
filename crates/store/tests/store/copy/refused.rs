//! What is not copied, and left as it was.

use super::*;

#[test]
fn a_target_that_is_not_empty_is_refused_and_left_alone() {
    let Some(world) = world(41) else { return };
    let (source, there) = (world.source(), world.there());
    copied(&source, &there, &kept());
    let before = everything(&there);
    moved::abandoned(&source);
    refused(
        copy::run(&source, &there, &kept(), &mut quietly),
        &["not empty", "--verify-only"],
    );
    before.assert_same(&everything(&there), "after the refusal");
    fill(&world.file("other.db"), 1, 20);
    let other = Place::Sqlite(world.file("other.db"));
    let before = everything(&other);
    refused(
        copy::run(&there, &other, &kept(), &mut quietly),
        &["not empty"],
    );
    before.assert_same(&everything(&other), "after the refusal");
    // Rows by hand count, too, in a ledger that nobody served.
    let empty = Cluster::shared("another database")
        .unwrap()
        .create_database();
    let address = Address::parse(&empty.url).unwrap();
    drop(PostgresEngine::open(address.clone()).unwrap());
    empty.sql("INSERT INTO agents(id, name) VALUES ('b', 'b')");
    refused(
        copy::run(&source, &Place::Postgres(address), &kept(), &mut quietly),
        &["not empty", "agents"],
    );
}

#[test]
fn a_file_that_is_no_ledger_is_refused_and_left_alone() {
    let Some(world) = world(43) else { return };
    let file = world.file("photos.db");
    let db = Connection::open(&file).unwrap();
    db.execute_batch("CREATE TABLE photos(x); INSERT INTO photos VALUES (1)")
        .unwrap();
    drop(db);
    let bytes = std::fs::read(&file).unwrap();
    let photos = Place::Sqlite(file.clone());
    refused(
        copy::run(&world.source(), &photos, &kept(), &mut quietly),
        &["not a ledger"],
    );
    refused(
        copy::run(&photos, &world.there(), &kept(), &mut quietly),
        &["not a ledger"],
    );
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
    refused(
        copy::run(&world.there(), &photos, &kept(), &mut quietly),
        &["there is no ledger in"],
    );
    refused(
        copy::run(&world.source(), &world.source(), &kept(), &mut quietly),
        &["both source and target"],
    );
    let nowhere = Place::Sqlite(world.file("nowhere.db"));
    refused(
        copy::run(&nowhere, &world.there(), &kept(), &mut quietly),
        &["there is no ledger at"],
    );
}

const SERVED_NOW: &str =
    "UPDATE sb_head SET served_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

#[test]
fn a_database_that_is_served_is_not_copied() {
    let Some(world) = world(47) else { return };
    copied(&world.source(), &world.there(), &kept());
    world.database.sql(SERVED_NOW);
    refused(
        copy::run(
            &world.there(),
            &world.back(),
            &Kept::default(),
            &mut quietly,
        ),
        &["was served 0 s ago", "stop every hub"],
    );
    assert!(!world.file("made").exists(), "nothing was made");
    world
        .database
        .sql("UPDATE sb_head SET served_at = served_at - 10000");
    copied(&world.there(), &world.back(), &Kept::default());
}

#[test]
fn a_source_that_was_written_meanwhile_is_noticed_at_the_end() {
    let Some(world) = world(53) else { return };
    let (source, there, back) = (world.source(), world.there(), world.back());
    let other_hub = as_the_hub(&world.file("source.db"));
    let mut meddle = Some(());
    let done = copy::run(&source, &there, &kept(), &mut |_| {
        if meddle.take().is_some() {
            other_hub
                .execute_batch("UPDATE tasks SET branch = 'meanwhile'")
                .unwrap();
        }
        ControlFlow::Continue(())
    });
    assert!(matches!(done, Err(Failure::Moved(_))), "{done:?}");
    opens_in_vain(&there);

    let other = Cluster::shared("another database")
        .unwrap()
        .create_database();
    let there = Place::Postgres(Address::parse(&other.url).unwrap());
    copied(&source, &there, &kept());
    let by_hand = "INSERT INTO agents(id, name) VALUES ('direct-3', 'by hand')";
    let again = Place::Sqlite(world.file("made/again.db"));
    for (write, back) in [(SERVED_NOW, back), (by_hand, again)] {
        let mut meddle = Some(());
        let done = copy::run(&there, &back, &Kept::default(), &mut |_| {
            if meddle.take().is_some() {
                other.sql(write);
            }
            ControlFlow::Continue(())
        });
        assert!(matches!(done, Err(Failure::Moved(_))), "{done:?}");
        opens_in_vain(&back);
        other.sql("UPDATE sb_head SET served_at = served_at - 1000000");
    }
}

#[test]
fn an_unfinished_copy_goes_on_only_from_the_same_source_as_it_was() {
    let Some(world) = world(59) else { return };
    let (source, there, keys) = (world.source(), world.there(), kept());
    all_but_verified(&source, &there, &keys);
    fill(&world.file("other.db"), 1, 20);
    let other = Place::Sqlite(world.file("other.db"));
    refused(
        copy::run(&other, &there, &keys, &mut quietly),
        &["unfinished copy of", "source.db", "not of", "other.db"],
    );
    refused(
        copy::verify(&source, &there, &keys, &mut quietly),
        &["unfinished copy"],
    );
    refused(
        copy::run(&there, &world.back(), &keys, &mut quietly),
        &["unfinished copy"],
    );
    let db = as_the_hub(&world.file("source.db"));
    db.execute_batch("UPDATE sb_head SET served_at = served_at + 1")
        .unwrap();
    refused(
        copy::run(&source, &there, &keys, &mut quietly),
        &["has changed since"],
    );
    db.execute_batch("UPDATE sb_head SET served_at = served_at - 1")
        .unwrap();
    drop(db);
    copied(&source, &there, &keys);
}

#[test]
fn a_key_of_another_ledger_is_not_overwritten() {
    let Some(world) = world(61) else { return };
    copied(&world.source(), &world.there(), &kept());
    let other = Kept(Mutex::new(Some([1; 32])));
    refused(
        copy::run(&world.there(), &world.back(), &other, &mut quietly),
        &["another key"],
    );
    assert_eq!(other.key().unwrap(), Some([1; 32]));
    assert!(!world.file("made").exists(), "nothing was made");
}

#[test]
fn what_the_database_cannot_hold_is_named() {
    let Some(world) = world(67) else { return };
    let db = as_the_hub(&world.file("source.db"));
    db.execute_batch(
        "UPDATE tasks SET retry_count = 'many' WHERE number = (SELECT max(number) FROM tasks)",
    )
    .unwrap();
    drop(db);
    refused(
        copy::run(&world.source(), &world.there(), &kept(), &mut quietly),
        &[
            "tasks number=",
            "column retry_count",
            "Text",
            "a whole number",
        ],
    );
}

#[test]
fn a_ledger_of_an_older_build_is_refused_with_the_way_to_bring_it_up_to_date() {
    let Some(world) = world(71) else { return };
    let db = as_the_hub(&world.file("source.db"));
    db.execute_batch("DELETE FROM sb_migration WHERE version > 1")
        .unwrap();
    drop(db);
    refused(
        copy::run(&world.source(), &world.there(), &kept(), &mut quietly),
        &["schema version 1", "switchboard up"],
    );
}

#[test]
fn what_was_written_by_hand_is_taken_in_before_a_ledger_is_copied() {
    let words = ["start the hub once so that it adopts them"];
    let Some(world) = world(83) else { return };
    let (source, there) = (world.source(), world.there());
    let by_hand = Connection::open(world.file("source.db")).unwrap();
    let insert = "INSERT INTO agents(id, name) VALUES ('direct-2', 'by hand')";
    by_hand.execute_batch(insert).unwrap();
    refused(copy::run(&source, &there, &kept(), &mut quietly), &words);
    as_the_hub(&world.file("source.db"))
        .execute_batch("DELETE FROM sb_hand; DELETE FROM agents WHERE rev = 0")
        .unwrap();
    copied(&source, &there, &kept());
    world.database.sql(insert);
    refused(
        copy::run(&there, &world.back(), &Kept::default(), &mut quietly),
        &words,
    );
    assert!(!world.file("made").exists(), "nothing was made");
}
