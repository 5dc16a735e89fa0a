//! Files and catalog, cut off at any step.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::super::testing::{catalog, engram};
use super::*;
use crate::projection::folder::freely;

/// Everything in a directory: paths with their content, directories with none.
type Tree = BTreeMap<String, Option<String>>;

struct Kit {
    home: TempDir,
    files: Files,
}

impl Kit {
    fn new() -> Kit {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("memory");
        Kit {
            files: Files {
                catalog: root.join("catalog.json"),
                projection: Projection {
                    root,
                    record: home.path().join("record.json"),
                },
            },
            home,
        }
    }

    /// Brings the files to these engrams.
    fn bring(&self, engrams: &[Engram], check: Check, probe: Probe<'_>) -> io::Result<Repairs> {
        let catalog = catalog(engrams);
        let digest = super::super::digest::digest(
            &catalog.catalog_version,
            engrams,
            super::super::digest::Bounds {
                bytes_max: 16_000,
                items_max: 48,
            },
        );
        let snapshot = Snapshot {
            catalog,
            digest: (!engrams.is_empty()).then_some(digest),
            upto: Position { epoch: 1, seq: 1 },
        };
        let mut body = |entry: &CatalogEntry| {
            let found = engrams.iter().find(|it| it.engram_id == entry.engram_id);
            Ok(found.map(Engram::to_text))
        };
        self.files.reconcile(&snapshot, check, &mut body, probe)
    }

    fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        walk(self.home.path(), self.home.path(), &mut tree);
        tree
    }

    /// Whatever the catalog that is there names is there too, and is what it says.
    fn holds_what_it_names(&self) {
        let Some(text) = read(&self.files.catalog).unwrap() else {
            return;
        };
        let catalog = Catalog::from_text(&text).expect("a catalog is never half there");
        for entry in &catalog.entries {
            let text = read(&self.files.file(&entry.path).unwrap()).unwrap();
            let text = text.unwrap_or_else(|| panic!("{} is missing", entry.path));
            let engram = Engram::from_text(&text).expect("an engram is never half there");
            assert_eq!(engram.hash, entry.hash, "{}", entry.path);
        }
    }
}

fn walk(root: &Path, at: &Path, tree: &mut Tree) {
    for entry in fs::read_dir(at).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().display().to_string();
        if path.is_dir() {
            tree.insert(name, None);
            walk(root, &path, tree);
        } else {
            tree.insert(name, Some(fs::read_to_string(&path).unwrap()));
        }
    }
}

/// Cuts the work off before its n-th change to the disk.
fn cut_after(mut steps: usize) -> impl FnMut(&'static str) -> io::Result<()> {
    move |what| {
        let left = steps.checked_sub(1);
        steps = left.ok_or_else(|| io::Error::other(format!("killed before it would {what}")))?;
        Ok(())
    }
}

fn some(numbers: &[u64]) -> Vec<Engram> {
    let made = numbers.iter().map(|n| {
        let scope = if *n < 3 { Scope::Long } else { Scope::Short };
        engram(*n, scope, &[&format!("done: {n}")])
    });
    made.collect()
}

#[test]
fn cut_off_at_any_step_the_catalog_names_only_what_is_there_and_the_next_start_mends_the_rest() {
    let stories: [(&[u64], &[u64]); 5] = [
        (&[], &[5]),
        (&[1, 5], &[1, 5, 6]),
        (&[5, 6, 7], &[2, 7, 8]),
        (&[1, 5], &[]),
        (&[], &[1, 2, 5, 6]),
    ];
    for (before, after) in stories {
        let whole = Kit::new();
        whole
            .bring(&some(before), Check::Bytes, &mut freely)
            .unwrap();
        whole
            .bring(&some(after), Check::Presence, &mut freely)
            .unwrap();
        let expected = whole.tree();
        for steps in 0.. {
            let kit = Kit::new();
            kit.bring(&some(before), Check::Bytes, &mut freely).unwrap();
            let cut = kit.bring(&some(after), Check::Presence, &mut cut_after(steps));
            kit.holds_what_it_names();
            kit.bring(&some(after), Check::Bytes, &mut freely).unwrap();
            kit.holds_what_it_names();
            assert_eq!(
                kit.tree(),
                expected,
                "{before:?} to {after:?}, {steps} steps"
            );
            if cut.is_ok() {
                assert!(steps > 0);
                break;
            }
        }
    }
}

#[test]
fn a_file_that_was_not_noted_as_written_is_written_anew_before_it_counts() {
    let kit = Kit::new();
    kit.bring(&some(&[5]), Check::Bytes, &mut freely).unwrap();
    let record = fs::read(&kit.files.projection.record).unwrap();
    kit.bring(&some(&[5, 6]), Check::Presence, &mut freely)
        .unwrap();
    fs::write(&kit.files.projection.record, record).unwrap();
    let repairs = kit
        .bring(&some(&[5, 6]), Check::Bytes, &mut freely)
        .unwrap();
    // With the catalog and the page of that time.
    assert_eq!((repairs.written, repairs.altered), (3, 0));
    let repairs = kit
        .bring(&some(&[5, 6]), Check::Bytes, &mut freely)
        .unwrap();
    assert_eq!(repairs, Repairs::default());
}

#[test]
fn cut_off_while_it_mends_it_mends_the_rest_at_the_next_start() {
    let kit = Kit::new();
    let engrams = some(&[1, 5, 6]);
    kit.bring(&engrams, Check::Bytes, &mut freely).unwrap();
    let expected = kit.tree();
    let files: Vec<PathBuf> = catalog(&engrams)
        .entries
        .iter()
        .map(|entry| kit.files.file(&entry.path).unwrap())
        .collect();
    for steps in 0..40 {
        fs::remove_file(&files[0]).unwrap();
        fs::write(&files[1], "{\"engram_id\":").unwrap();
        fs::write(&kit.files.catalog, "{").unwrap();
        let _ = kit.bring(&engrams, Check::Bytes, &mut cut_after(steps));
        kit.bring(&engrams, Check::Bytes, &mut freely).unwrap();
        let aside = kit.files.catalog.with_extension("json.unreadable");
        fs::remove_file(aside).unwrap();
        assert_eq!(kit.tree(), expected, "{steps} steps");
    }
}

#[test]
fn what_was_altered_is_written_again_and_what_is_unknown_is_left_alone() {
    let kit = Kit::new();
    let engrams = some(&[5, 6]);
    kit.bring(&engrams, Check::Bytes, &mut freely).unwrap();
    let before = kit.tree();
    let entry = &catalog(&engrams).entries[0];
    let file = kit.files.file(&entry.path).unwrap();
    fs::write(&file, engrams[1].to_text()).unwrap();
    let stranger = file.with_file_name("engram_e_stranger.json");
    fs::write(&stranger, "mine").unwrap();
    let repairs = kit.bring(&engrams, Check::Bytes, &mut freely).unwrap();
    assert_eq!((repairs.written, repairs.altered), (1, 1));
    assert_eq!(fs::read_to_string(&stranger).unwrap(), "mine");
    fs::remove_file(&stranger).unwrap();
    assert_eq!(kit.tree(), before);
    let repairs = kit.bring(&engrams, Check::Bytes, &mut freely).unwrap();
    assert_eq!(repairs, Repairs::default(), "nothing is written twice");
}

#[test]
fn engrams_of_another_ledger_leave_the_catalog_but_not_the_disk() {
    let kit = Kit::new();
    let file = |n| {
        let path = &catalog(&some(&[n])).entries[0].path;
        kit.files.file(path).unwrap()
    };
    kit.bring(&some(&[5, 30]), Check::Bytes, &mut freely)
        .unwrap();
    fs::remove_file(&kit.files.projection.record).unwrap();
    kit.bring(&some(&[5]), Check::Bytes, &mut freely).unwrap();
    assert!(file(30).exists(), "nobody here ever had it");
    kit.bring(&some(&[6]), Check::Bytes, &mut freely).unwrap();
    assert!(!file(5).exists(), "this one was");
}

#[test]
fn without_engrams_no_directory_is_made_and_nothing_of_others_is_touched() {
    let kit = Kit::new();
    kit.bring(&[], Check::Bytes, &mut freely).unwrap();
    assert!(kit.tree().is_empty());
    fs::create_dir(&kit.files.projection.root).unwrap();
    fs::write(&kit.files.catalog, "my own catalog").unwrap();
    let before = kit.tree();
    kit.bring(&[], Check::Bytes, &mut freely).unwrap();
    assert_eq!(kit.tree(), before);
}

#[test]
fn a_page_of_somebody_else_under_the_name_of_the_digest_stays() {
    let kit = Kit::new();
    fs::create_dir(&kit.files.projection.root).unwrap();
    let page = kit.files.projection.root.join(DIGEST);
    fs::write(&page, "# My notes").unwrap();
    kit.bring(&some(&[5]), Check::Bytes, &mut freely).unwrap();
    assert_eq!(fs::read_to_string(&page).unwrap(), "# My notes");
    fs::remove_file(&page).unwrap();
    kit.bring(&some(&[5]), Check::Bytes, &mut freely).unwrap();
    assert!(fs::read_to_string(&page).unwrap().contains("done: 5"));
}

#[test]
fn what_is_found_is_only_what_the_catalog_says() {
    let kit = Kit::new();
    let engrams = some(&[1, 5, 6]);
    kit.bring(&engrams, Check::Bytes, &mut freely).unwrap();
    let found = |most| {
        let found = kit.files.found(most).into_iter();
        found.map(|(engram, _)| engram).collect::<Vec<_>>()
    };
    assert_eq!(found(10), engrams);
    assert_eq!(found(2), engrams[1..], "the newest");
    let file = kit.files.file(&catalog(&engrams).entries[1].path).unwrap();
    fs::write(&file, engrams[2].to_text()).unwrap();
    assert_eq!(found(10), [engrams[0].clone(), engrams[2].clone()]);
    fs::write(&kit.files.catalog, "[]").unwrap();
    assert!(found(10).is_empty());
}

#[test]
fn no_link_is_followed_out_of_the_directory() {
    use std::os::unix::fs::symlink;
    let kit = Kit::new();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::create_dir(&kit.files.projection.root).unwrap();
    symlink(elsewhere.path(), kit.files.projection.root.join("st")).unwrap();
    kit.bring(&some(&[5]), Check::Bytes, &mut freely)
        .unwrap_err();
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    // A file that is a link is replaced, not written through.
    fs::remove_file(kit.files.projection.root.join("st")).unwrap();
    let outside = elsewhere.path().join("outside");
    fs::write(&outside, "theirs").unwrap();
    symlink(&outside, &kit.files.catalog).unwrap();
    kit.bring(&some(&[5]), Check::Bytes, &mut freely).unwrap();
    assert_eq!(fs::read_to_string(&outside).unwrap(), "theirs");
    kit.holds_what_it_names();
}
