//! What is left behind: marked, so that nobody goes on with it by mistake.

use switchboard_core::Slice;
use switchboard_store::moved::{self, Kind};

use super::*;

/// Goes back to a ledger that was moved, as a person may decide.
#[track_caller]
pub fn abandoned(place: &Place) {
    let mark = moved::abandon(place).expect("it can be opened");
    assert_eq!(mark.expect("it was moved").kind, Kind::Moved);
}

fn opened(place: &Place) -> Result<Box<dyn Engine>, Error> {
    let clock = ManualClock::at(conformance::START);
    Ok(match place {
        Place::Sqlite(file) => Box::new(SqliteEngine::open(file, Box::new(clock))?),
        Place::Postgres(address) => Box::new(PostgresEngine::open(address.clone())?),
    })
}

#[track_caller]
fn is_moved(from: &Place, to: &Place) -> String {
    let Some(Error::Moved(said)) = opened(from).err() else {
        panic!("{from} is served");
    };
    for word in [
        &format!("{from} was moved to {to} at 2"),
        "--store",
        "--abandon-move",
    ] {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
    said
}

/// The path as the copy knows it.
fn settled(place: &Place) -> Place {
    match place {
        Place::Sqlite(file) => Place::Sqlite(file.canonicalize().expect("it is there")),
        Place::Postgres(_) => place.clone(),
    }
}

#[test]
fn what_was_moved_is_neither_served_nor_written_in_either_direction() {
    let Some(world) = world(101) else { return };
    let (source, there) = (settled(&world.source()), world.there());
    let by_hand = "INSERT INTO tasks(id, title) VALUES ('late', 'Late')";
    copied(&source, &there, &kept());
    let said = is_moved(&source, &there);
    let hand = Connection::open(world.file("source.db")).unwrap();
    assert_eq!(hand.execute_batch(by_hand).unwrap_err().to_string(), said);
    refused(
        copy::run(&source, &there, &kept(), &mut quietly),
        &["was moved to"],
    );
    refused(
        copy::run(&source, &world.back(), &kept(), &mut quietly),
        &["was moved to"],
    );
    copy::verify(&source, &there, &kept(), &mut quietly).expect("a comparison changes nothing");

    // A coordinator that was stopped for longer than a hub may be silent, and goes on.
    let mut asleep = PostgresEngine::open(Address::parse(&world.database.url).unwrap()).unwrap();
    copied(&there, &world.back(), &Kept::default());
    let back = settled(&world.back());
    let said = is_moved(&there, &back);
    let woken = asleep.begin(&mut Slice::default()).map(drop);
    assert!(matches!(woken, Err(Error::Moved(_))), "{woken:?}");
    for table in ["tasks", "agents", "messages", "leases", "swarm_metadata"] {
        let told = world.database.sql(&format!(
            "DO $$ BEGIN DELETE FROM {table}; EXCEPTION WHEN check_violation THEN
               PERFORM set_config('told.what', SQLERRM, false); END $$; SELECT current_setting('told.what')"
        ));
        assert_eq!(told, said, "{table}");
    }
    abandoned(&there);
    asleep.begin(&mut Slice::default()).expect("it goes on");
    asleep.rollback();
    drop(asleep);
    world.database.sql(by_hand);
    drop(opened(&there).expect("it is served again"));
}

#[test]
fn killed_between_the_mark_and_the_end_the_same_command_goes_on() {
    let Some(world) = world(103) else { return };
    let (source, there) = (settled(&world.source()), world.there());
    let before = everything(&source);
    drop(opened(&there).expect("an empty database"));
    world.database.sql(
        "CREATE FUNCTION boom() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'boom'; END $$;
         CREATE TRIGGER boom BEFORE UPDATE ON sb_head FOR EACH ROW EXECUTE FUNCTION boom()",
    );
    refused(copy::run(&source, &there, &kept(), &mut quietly), &["boom"]);
    // Neither is served: there are never two.
    is_moved(&source, &there);
    opens_in_vain(&there);
    let elsewhere = world.back();
    refused(
        copy::run(&source, &elsewhere, &kept(), &mut quietly),
        &["was moved to"],
    );
    world.database.sql("DROP FUNCTION boom CASCADE");
    let done = copied(&source, &there, &kept());
    assert_eq!(done.resumed + 1, done.rows, "all but the head was there");
    before.assert_same(&everything(&there), "in the database");
    is_moved(&source, &there);
}

#[test]
fn a_file_that_was_moved_makes_room_for_its_return_and_is_kept() {
    let Some(world) = world(107) else { return };
    let (source, there) = (settled(&world.source()), world.there());
    let before = everything(&source);
    copied(&source, &there, &kept());
    let Place::Sqlite(file) = &source else {
        unreachable!()
    };
    let reader = Connection::open(file).unwrap();
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM tasks")
        .unwrap();
    refused(
        copy::run(&there, &source, &kept(), &mut quietly),
        &["cannot be renamed", "close whatever uses it"],
    );
    drop(reader);
    let came = copied(&there, &source, &kept());
    let [note] = came.notes.as_slice() else {
        panic!("{came:?}");
    };
    assert!(note.contains("is kept as"), "{note}");
    before.assert_same(&everything(&source), "after its return");
    let kept: Vec<_> = std::fs::read_dir(world.dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains("source.db.moved-2"))
        .collect();
    let [kept] = kept.as_slice() else {
        panic!("{kept:?}");
    };
    let old = Place::Sqlite(kept.clone());
    let said = opened(&old).err().expect("it stays marked").to_string();
    assert!(said.contains("was moved to postgres://"), "{said}");
    abandoned(&old);
    before.assert_same(&everything(&old), "as it was left");
    // A database is not put away by anyone but its owner.
    refused(
        copy::run(&source, &there, &super::kept(), &mut quietly),
        &["was moved to", "ALTER DATABASE"],
    );
    drop(opened(&source).expect("nothing was changed"));
}
