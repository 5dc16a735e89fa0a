//! The link.

use super::*;

#[test]
fn the_first_start_makes_a_relative_link_and_the_next_leaves_it_alone() {
    let project = Project::new();
    assert_eq!(project.swarm().look(), LinkState::Absent);
    assert_eq!(project.start().unwrap(), Told::default());
    project.is_linked();
    assert_eq!(
        fs::read_link(project.path()).unwrap(),
        Path::new("../.switchboard/switchboard.db")
    );
    let made = fs::symlink_metadata(project.path()).unwrap().modified();
    assert_eq!(project.start().unwrap(), Told::default());
    let found = fs::symlink_metadata(project.path()).unwrap().modified();
    assert_eq!(found.unwrap(), made.unwrap());
    assert_eq!(project.kept(), [""; 0]);
}

#[test]
fn a_link_made_before_there_is_a_ledger_is_right() {
    let project = Project::new();
    drop(project.swarm().plan().unwrap().carry_out().unwrap());
    assert!(!project.ledger.exists());
    assert_eq!(project.swarm().look(), LinkState::Linked);
}

#[test]
fn the_log_of_whoever_opens_the_link_lies_beside_the_real_file() {
    let project = Project::new();
    project.start().unwrap();
    let db = Connection::open(project.path()).unwrap();
    db.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE theirs(x)")
        .unwrap();
    assert!(project.ledger.with_extension("db-wal").exists());
    assert_eq!(project.kept(), [""; 0]);
}

#[test]
fn a_moved_project_keeps_its_link() {
    let project = Project::new();
    project.start().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let moved = elsewhere.path().join("moved");
    fs::rename(project.home.path(), &moved).unwrap();
    let swarm = SwarmDb::new(&moved, &moved.join(".switchboard/switchboard.db"));
    assert_eq!(swarm.look(), LinkState::Linked);
}

#[test]
fn a_link_to_where_the_ledger_was_is_made_anew() {
    let mut project = Project::new();
    project.start().unwrap();
    // The old one stays a ledger, or is gone with its directory.
    for (place, clear) in [("state/a.db", false), ("state/b.db", true)] {
        let before = project.ledger.clone();
        project.ledger = project.home.path().join(place);
        fs::create_dir_all(project.ledger.parent().unwrap()).unwrap();
        if clear {
            fs::remove_file(before).unwrap();
        }
        let look = project.swarm().look();
        assert!(matches!(look, LinkState::Stale { .. }), "{look:?}");
        assert_eq!(project.start().unwrap(), Told::default());
        project.is_linked();
        assert_eq!(project.kept(), [""; 0]);
    }
}

#[test]
fn a_link_that_is_not_ours_is_left_alone_with_what_to_do() {
    let project = Project::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let other = elsewhere.path().join("other.db");
    let theirs = project.home.path().join("theirs.db");
    Connection::open(&theirs)
        .unwrap()
        .execute_batch("CREATE TABLE t(x)")
        .unwrap();
    fs::create_dir_all(project.swarm().folder()).unwrap();
    // Outside of the project, whether it is there or not; inside, if it is something else.
    for target in [&other, &theirs] {
        std::os::unix::fs::symlink(target, project.path()).unwrap();
        let told = project.start().unwrap();
        let [warning] = told.warnings.as_slice() else {
            panic!("{told:?}");
        };
        let target = target.display().to_string();
        assert!(
            warning.contains(&target) && warning.contains("remove it"),
            "{warning}"
        );
        assert_eq!(fs::read_link(project.path()).unwrap(), Path::new(&target));
        fs::remove_file(project.path()).unwrap();
    }
}

#[test]
fn any_link_that_leads_to_the_ledger_will_do() {
    let project = Project::new();
    fs::create_dir_all(project.swarm().folder()).unwrap();
    std::os::unix::fs::symlink(&project.ledger, project.path()).unwrap();
    assert_eq!(project.start().unwrap(), Told::default());
    assert_eq!(fs::read_link(project.path()).unwrap(), project.ledger);
}

#[test]
fn a_ledger_outside_of_the_project_is_linked_by_its_whole_path() {
    let elsewhere = tempfile::tempdir().unwrap();
    let mut project = Project::new();
    project.ledger = elsewhere.path().join("far.db");
    assert_eq!(project.start().unwrap(), Told::default());
    assert_eq!(project.swarm().look(), LinkState::Linked);
    let target = fs::read_link(project.path()).unwrap();
    assert_eq!(target, fs::canonicalize(&project.ledger).unwrap());
}

#[test]
fn a_folder_that_is_itself_a_link_is_followed() {
    let project = Project::new();
    fs::create_dir_all(project.home.path().join("deep/down")).unwrap();
    std::os::unix::fs::symlink("deep/down", project.swarm().folder()).unwrap();
    assert_eq!(project.start().unwrap(), Told::default());
    project.is_linked();
}

#[test]
fn where_no_link_can_be_made_the_hub_is_told_what_to_set() {
    let project = Project::new();
    // Permissions do not stop root; a file in the folder's place stops everyone.
    fs::write(project.swarm().folder(), "").unwrap();
    let told = project.start().unwrap();
    let [warning] = told.warnings.as_slice() else {
        panic!("{told:?}");
    };
    assert!(
        warning.contains("[store] path = \".jetpack/swarm.db\""),
        "{warning}"
    );
}

#[test]
fn what_is_neither_file_nor_link_is_left_alone() {
    let project = Project::new();
    fs::create_dir_all(project.path()).unwrap();
    assert_eq!(project.swarm().look(), LinkState::Odd);
    let told = project.start().unwrap();
    assert!(told.warnings[0].contains("move it away"), "{told:?}");
    assert!(project.path().is_dir());
}

#[test]
fn a_ledger_that_is_there_by_its_settings_is_not_linked() {
    let project = Project::with_ledger(".jetpack/swarm.db");
    assert_eq!(project.swarm().look(), LinkState::Ledger);
    for _ in 0..2 {
        assert_eq!(project.start().unwrap(), Told::default());
        assert_eq!(project.swarm().look(), LinkState::Ledger);
        assert!(!fs::symlink_metadata(project.path()).unwrap().is_symlink());
    }
}

#[test]
fn what_a_start_left_half_made_does_not_stop_the_next() {
    let project = Project::new();
    let link = project.swarm().prepare().unwrap();
    std::mem::forget(link);
    assert_eq!(project.kept().len(), 1);
    assert_eq!(project.start().unwrap(), Told::default());
    project.is_linked();
    assert_eq!(project.kept(), [""; 0]);
}

#[test]
fn without_a_file_of_its_own_the_hub_only_mentions_one_that_is_there() {
    let project = Project::new();
    assert_eq!(hint(project.home.path()), None);
    drop(project.old(""));
    let said = hint(project.home.path()).unwrap();
    assert!(said.contains("PostgreSQL"), "{said}");
}

#[test]
fn what_appeared_while_the_link_was_made_stays() {
    let project = Project::new();
    let plan = project.swarm().plan().unwrap();
    fs::write(project.path(), "theirs").unwrap();
    let told = plan.carry_out().unwrap();
    assert_eq!(told.warnings.len(), 1, "{told:?}");
    assert_eq!(fs::read(project.path()).unwrap(), b"theirs");
}
