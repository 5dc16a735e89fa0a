//! What a crash leaves, edits and strangers, step by step.

use super::folder::freely;
use super::*;

struct Kit {
    home: tempfile::TempDir,
    projection: Projection,
}

impl Kit {
    fn new() -> Kit {
        let home = tempfile::tempdir().unwrap();
        Kit {
            projection: Projection {
                root: home.path().join("root"),
                record: home.path().join("record.json"),
            },
            home,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.projection.root.join(name)
    }

    /// Files of these names, each with its name in it.
    fn bring(&self, seq: u64, names: &[&str], foreign: Foreign) -> io::Result<Repairs> {
        let wanted: Vec<Wanted> = names
            .iter()
            .map(|name| Wanted {
                path: self.path(name),
                version: (*name).to_owned(),
                content: Some(name.as_bytes().to_vec()),
                foreign,
            })
            .collect();
        let upto = Position { epoch: 1, seq };
        let (content, probe) = (&mut |_: &Wanted| Ok(None), &mut freely);
        self.projection
            .reconcile(upto, &wanted, Check::Bytes, content, probe)
    }

    fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path(name)).ok()
    }
}

const REPLACE: Foreign = Foreign::Replace;

#[test]
fn what_is_wanted_no_longer_goes_with_its_directories_and_what_others_wrote_stays() {
    let kit = Kit::new();
    kit.bring(1, &["a/b/one", "a/two"], REPLACE).unwrap();
    fs::write(kit.path("a/theirs"), "x").unwrap();
    let repairs = kit.bring(2, &["a/two"], REPLACE).unwrap();
    assert_eq!((repairs.written, repairs.removed), (0, 1));
    assert!(!kit.path("a/b").exists());
    kit.bring(3, &[], REPLACE).unwrap();
    assert_eq!(kit.text("a/two"), None);
    assert_eq!(kit.text("a/theirs").as_deref(), Some("x"));
}

#[test]
fn a_ledger_that_went_back_removes_nothing() {
    let kit = Kit::new();
    kit.bring(7, &["one", "two"], REPLACE).unwrap();
    kit.bring(6, &["two"], REPLACE).unwrap();
    assert_eq!(kit.text("one").as_deref(), Some("one"));
    kit.bring(6, &[], REPLACE).unwrap();
    assert_eq!(kit.text("two"), None, "this one it had");
}

#[test]
fn an_edit_is_noticed_and_a_strangers_file_is_left_or_put_aside() {
    let kit = Kit::new();
    kit.bring(1, &["one"], REPLACE).unwrap();
    fs::write(kit.path("one"), "edited").unwrap();
    let ours = |there: &[u8]| there == b"one";
    let repairs = kit.bring(1, &["one"], Foreign::Keep(ours)).unwrap();
    assert_eq!(repairs, Repairs::default());
    assert_eq!(kit.text("one").as_deref(), Some("edited"));
    kit.bring(1, &["one"], Foreign::PutAside(ours)).unwrap();
    assert_eq!(kit.text("one").as_deref(), Some("one"));
    assert_eq!(kit.text("one.unreadable").as_deref(), Some("edited"));
    fs::write(kit.path("one"), "edited").unwrap();
    let repairs = kit.bring(1, &["one"], REPLACE).unwrap();
    assert_eq!((repairs.written, repairs.altered), (1, 1));
}

#[test]
fn a_file_outside_of_the_root_is_written_and_never_removed() {
    let kit = Kit::new();
    let outside = kit.home.path().join("elsewhere/list");
    let name = outside.to_str().unwrap();
    kit.bring(1, &["one", name], REPLACE).unwrap();
    assert!(outside.is_file());
    kit.bring(2, &["one"], REPLACE).unwrap();
    assert!(outside.is_file());
}

#[test]
fn two_processes_write_one_after_the_other() {
    let kit = Kit::new();
    kit.bring(1, &["one"], REPLACE).unwrap();
    let other = folder::open(&kit.projection.root).unwrap();
    alone(&other).unwrap();
    let error = kit.bring(2, &["two"], REPLACE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    drop(other);
    kit.bring(2, &["two"], REPLACE).unwrap();
}

#[test]
fn missing_directories_are_made_with_their_mode_and_others_stay_as_they_are() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let before = mode(home.path());
    let deep = home.path().join("a/b");
    for _ in 0..2 {
        folder::make(&deep, 0o700).unwrap();
        assert_eq!([mode(&deep), mode(&home.path().join("a"))], [0o700; 2]);
    }
    assert_eq!(mode(home.path()), before);
    fs::write(deep.join("file"), "").unwrap();
    folder::make(&deep.join("file"), 0o700).unwrap_err();
    folder::make(&deep.join("file/below"), 0o700).unwrap_err();
}
