//! Requests on a disk, and what becomes of them when the hub is cut off.

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::spool::Place;

struct Kit {
    _home: tempfile::TempDir,
    path: PathBuf,
    dirs: Dirs,
}

impl Kit {
    fn new() -> Kit {
        let home = tempfile::tempdir().unwrap();
        let place = Place::new(home.path(), &home.path().join("door"));
        Kit {
            dirs: Dirs::open(&place).unwrap(),
            path: place.path(),
            _home: home,
        }
    }

    fn write(&self, file: &str, text: &str) -> Identity {
        let path = self.path.join(file);
        fs::write(&path, text).unwrap();
        let (dir, name) = file.split_once('/').unwrap();
        let origin = match dir {
            "taken" => Origin::Taken,
            _ => Origin::Requests,
        };
        self.dirs.identity(origin, name.as_ref()).unwrap().unwrap()
    }

    fn settle(&self, identity: Identity, answer: &str) -> Verdict {
        let answer = answer.as_bytes();
        let (origin, name) = (Origin::Requests, OsStr::new("n.json"));
        let settled = self
            .dirs
            .settle(origin, name, identity, answer, &Fate::Done);
        settled.unwrap()
    }

    fn text(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.path.join(file)).ok()
    }

    fn count(&self, dir: &str) -> usize {
        fs::read_dir(self.path.join(dir)).unwrap().count()
    }
}

#[test]
fn a_request_is_answered_and_put_away_and_leaves_nothing_half_done() {
    let kit = Kit::new();
    let identity = kit.write("requests/n.json", "one");
    assert_eq!(kit.settle(identity, "answer"), Verdict::Away);
    assert_eq!(
        kit.text("responses/n-response.json").as_deref(),
        Some("answer")
    );
    assert_eq!(kit.text("done/n.json").as_deref(), Some("one"));
    assert_eq!((kit.count("requests"), kit.count("taken")), (0, 0));
    assert_eq!((kit.count("responses"), kit.count("done")), (1, 1));
    assert_eq!(kit.count("ready"), 0);
}

#[test]
fn a_request_that_was_replaced_is_not_answered_and_the_new_one_is_not_lost() {
    let kit = Kit::new();
    let identity = kit.write("requests/n.json", "one");
    fs::rename(kit.path.join("requests/n.json"), kit.path.join("elsewhere")).unwrap();
    kit.write("requests/n.json", "two");
    assert_eq!(kit.settle(identity, "to one"), Verdict::Another);
    assert_eq!(kit.text("taken/n.json").as_deref(), Some("two"));
    assert_eq!((kit.count("responses"), kit.count("done")), (0, 0));
}

#[test]
fn one_that_was_taken_back_is_answered_all_the_same() {
    let kit = Kit::new();
    let identity = kit.write("requests/n.json", "one");
    fs::remove_file(kit.path.join("requests/n.json")).unwrap();
    assert_eq!(kit.settle(identity, "answer"), Verdict::Away);
    assert_eq!((kit.count("responses"), kit.count("done")), (1, 0));
}

#[test]
fn a_second_try_goes_on_with_what_was_taken_and_leaves_the_next_request_alone() {
    let kit = Kit::new();
    let identity = kit.write("taken/n.json", "one");
    kit.write("requests/n.json", "two");
    assert_eq!(kit.settle(identity, "to one"), Verdict::Away);
    assert_eq!(kit.text("done/n.json").as_deref(), Some("one"));
    assert_eq!(kit.text("requests/n.json").as_deref(), Some("two"));
}

#[test]
fn what_cannot_be_moved_is_answered_where_it_is() {
    let kit = Kit::new();
    let identity = kit.write("requests/n.json", "one");
    fs::create_dir_all(kit.path.join("taken/n.json/x")).unwrap();
    assert_eq!(kit.settle(identity, "answer"), Verdict::Unmovable);
    assert_eq!(kit.text("requests/n.json").as_deref(), Some("one"));
    assert_eq!(
        kit.text("responses/n-response.json").as_deref(),
        Some("answer")
    );
}

#[test]
fn requests_of_one_name_are_all_kept_the_last_one_under_it() {
    let kit = Kit::new();
    for number in 1..=3 {
        let identity = kit.write("requests/n.json", &format!("no. {number}"));
        assert_eq!(kit.settle(identity, "answer"), Verdict::Away);
    }
    assert_eq!(kit.text("done/n.json").as_deref(), Some("no. 3"));
    assert_eq!(kit.count("done"), 3);
}

#[test]
fn the_key_follows_the_file_and_no_other() {
    let kit = Kit::new();
    let identity = kit.write("requests/n.json", "one");
    let key =
        |identity: Identity, name: &str, body: &str| identity.key(name.as_ref(), body.as_bytes());
    let of_it = key(identity, "n.json", "one");
    assert!(of_it.len() <= limits::IDEMPOTENCY_KEY_BYTES_MAX, "{of_it}");
    fs::rename(
        kit.path.join("requests/n.json"),
        kit.path.join("taken/n.json"),
    )
    .unwrap();
    let moved = kit.dirs.identity(Origin::Taken, "n.json".as_ref());
    assert_eq!(key(moved.unwrap().unwrap(), "n.json", "one"), of_it);
    let next = kit.write("requests/n.json", "one");
    for other in [
        key(next, "n.json", "one"),
        key(identity, "m.json", "one"),
        key(identity, "n.json", "two"),
    ] {
        assert_ne!(other, of_it);
    }
}

#[test]
fn an_answer_shows_when_its_request_is_put_away_and_not_a_second_time() {
    let kit = Kit::new();
    let now = SystemTime::now();
    let publish = |lain_for: Duration| kit.dirs.publish_left_behind(lain_for, now).unwrap();
    let shown = || kit.text("responses/n-response.json");
    fs::write(kit.path.join("ready/n-response.json"), "answer").unwrap();
    kit.write("taken/n.json", "one");
    publish(Duration::ZERO);
    assert_eq!(shown(), None, "the request is handled again first");
    fs::remove_file(kit.path.join("taken/n.json")).unwrap();
    publish(Duration::from_secs(10));
    assert_eq!(shown(), None, "somebody may be at it");
    let left = fs::File::open(kit.path.join("ready/n-response.json")).unwrap();
    publish(Duration::ZERO);
    assert_eq!(shown().as_deref(), Some("answer"));
    // It is written anew: what was left behind may never have reached the disk.
    let ino = |file: &fs::File| std::os::unix::fs::MetadataExt::ino(&file.metadata().unwrap());
    let shows = fs::File::open(kit.path.join("responses/n-response.json")).unwrap();
    assert_ne!(ino(&left), ino(&shows));
    assert_eq!(kit.text("ready/n-response.json"), None);
    fs::remove_file(kit.path.join("responses/n-response.json")).unwrap();
    publish(Duration::ZERO);
    assert_eq!(shown(), None);
}
