use std::collections::{BTreeMap, HashSet};

use tempfile::TempDir;

use super::super::testing::{catalog, engram};
use super::*;

/// Everything in a directory: paths with their content, directories with none.
type Tree = BTreeMap<String, Option<String>>;

struct Kit {
    home: TempDir,
    shelf: Shelf,
}

impl Kit {
    fn new() -> Kit {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("memory");
        Kit {
            shelf: Shelf {
                catalog: root.join("catalog.json"),
                root,
            },
            home,
        }
    }

    /// Brings the files to these engrams, as the ledger that let go of all others would.
    fn bring(&self, engrams: &[Engram], look: Look, step: &mut impl Step) -> io::Result<Mended> {
        let catalog = catalog(engrams);
        let evicted: HashSet<String> = (1..20)
            .map(|n| engram(n, Scope::Short, &[]).engram_id)
            .filter(|id| engrams.iter().all(|kept| kept.engram_id != *id))
            .collect();
        let digest = super::super::digest::digest(
            &catalog.catalog_version,
            engrams,
            super::super::digest::Bounds {
                bytes_max: 16_000,
                items_max: 48,
            },
        );
        let wanted = Wanted {
            catalog: &catalog,
            evicted: &evicted,
            digest: (!engrams.is_empty()).then_some(&digest),
        };
        let body = |entry: &CatalogEntry| {
            let found = engrams.iter().find(|it| it.engram_id == entry.engram_id);
            Ok(found.map(Engram::to_text))
        };
        self.shelf.reconcile(&wanted, look, body, step)
    }

    fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        walk(self.home.path(), self.home.path(), &mut tree);
        tree
    }

    /// Whatever the catalog that is there names is there too, and is what it says.
    fn holds_what_it_names(&self) {
        let Some(text) = read(&self.shelf.catalog).unwrap() else {
            return;
        };
        let catalog = Catalog::from_text(text.as_bytes()).expect("a catalog is never half there");
        for entry in &catalog.entries {
            let text = read(&self.shelf.file(&entry.path).unwrap()).unwrap();
            let text = text.unwrap_or_else(|| panic!("{} is missing", entry.path));
            let engram = Engram::from_text(text.as_bytes()).expect("an engram is never half there");
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
struct CutAfter(usize);

impl Step for CutAfter {
    fn about_to(&mut self, what: &'static str) -> io::Result<()> {
        match self.0.checked_sub(1) {
            Some(left) => {
                self.0 = left;
                Ok(())
            }
            None => Err(io::Error::other(format!("killed before it would {what}"))),
        }
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
            .bring(&some(before), Look::Whole, &mut Freely)
            .unwrap();
        whole.bring(&some(after), Look::There, &mut Freely).unwrap();
        let expected = whole.tree();
        for steps in 0.. {
            let kit = Kit::new();
            kit.bring(&some(before), Look::Whole, &mut Freely).unwrap();
            let cut = kit.bring(&some(after), Look::There, &mut CutAfter(steps));
            kit.holds_what_it_names();
            kit.bring(&some(after), Look::Whole, &mut Freely).unwrap();
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
fn a_file_that_no_catalog_names_yet_is_written_anew_before_it_counts() {
    let kit = Kit::new();
    kit.bring(&some(&[5]), Look::Whole, &mut Freely).unwrap();
    let catalog = fs::read(&kit.shelf.catalog).unwrap();
    kit.bring(&some(&[5, 6]), Look::There, &mut Freely).unwrap();
    fs::write(&kit.shelf.catalog, catalog).unwrap();
    let mended = kit.bring(&some(&[5, 6]), Look::Whole, &mut Freely).unwrap();
    assert_eq!((mended.written, mended.altered), (1, 0));
    let mended = kit.bring(&some(&[5, 6]), Look::Whole, &mut Freely).unwrap();
    assert_eq!(mended, Mended::default());
}

#[test]
fn cut_off_while_it_mends_it_mends_the_rest_at_the_next_start() {
    let kit = Kit::new();
    let engrams = some(&[1, 5, 6]);
    kit.bring(&engrams, Look::Whole, &mut Freely).unwrap();
    let expected = kit.tree();
    let files: Vec<PathBuf> = catalog(&engrams)
        .entries
        .iter()
        .map(|entry| kit.shelf.file(&entry.path).unwrap())
        .collect();
    for steps in 0..40 {
        fs::remove_file(&files[0]).unwrap();
        fs::write(&files[1], "{\"engram_id\":").unwrap();
        fs::write(temporary(&files[2]), "half").unwrap();
        fs::write(&kit.shelf.catalog, "{").unwrap();
        let _ = kit.bring(&engrams, Look::Whole, &mut CutAfter(steps));
        let mended = kit.bring(&engrams, Look::Whole, &mut Freely).unwrap();
        // A file that no catalog names is written anew, and the catalog was none.
        assert!(mended.written <= files.len());
        let aside = kit.shelf.catalog.with_extension("json.unreadable");
        fs::remove_file(aside).unwrap();
        assert_eq!(kit.tree(), expected, "{steps} steps");
    }
}

#[test]
fn what_was_altered_is_written_again_and_what_is_unknown_is_left_alone() {
    let kit = Kit::new();
    let engrams = some(&[5, 6]);
    kit.bring(&engrams, Look::Whole, &mut Freely).unwrap();
    let before = kit.tree();
    let entry = &catalog(&engrams).entries[0];
    let file = kit.shelf.file(&entry.path).unwrap();
    fs::write(&file, engrams[1].to_text()).unwrap();
    let stranger = file.with_file_name("engram_e_stranger.json");
    fs::write(&stranger, "mine").unwrap();
    let mended = kit.bring(&engrams, Look::Whole, &mut Freely).unwrap();
    assert_eq!((mended.written, mended.altered), (1, 1));
    assert_eq!(fs::read_to_string(&stranger).unwrap(), "mine");
    fs::remove_file(&stranger).unwrap();
    assert_eq!(kit.tree(), before);
    let mended = kit.bring(&engrams, Look::Whole, &mut Freely).unwrap();
    assert_eq!(mended, Mended::default(), "nothing is written twice");
}

#[test]
fn engrams_of_another_ledger_leave_the_catalog_but_not_the_disk() {
    let kit = Kit::new();
    kit.bring(&some(&[5, 30]), Look::Whole, &mut Freely)
        .unwrap();
    let foreign = kit
        .shelf
        .file(&catalog(&some(&[30])).entries[0].path)
        .unwrap();
    kit.bring(&some(&[6]), Look::Whole, &mut Freely).unwrap();
    assert!(foreign.exists(), "nobody here ever had it");
    assert!(
        !kit.shelf
            .file(&catalog(&some(&[5])).entries[0].path)
            .unwrap()
            .exists()
    );
}

#[test]
fn without_engrams_no_directory_is_made_and_nothing_of_others_is_touched() {
    let kit = Kit::new();
    kit.bring(&[], Look::Whole, &mut Freely).unwrap();
    assert!(kit.tree().is_empty());
    fs::create_dir(&kit.shelf.root).unwrap();
    fs::write(&kit.shelf.catalog, "my own catalog").unwrap();
    let before = kit.tree();
    kit.bring(&[], Look::Whole, &mut Freely).unwrap();
    assert_eq!(kit.tree(), before);
}

#[test]
fn a_page_of_somebody_else_under_the_name_of_the_digest_stays() {
    let kit = Kit::new();
    fs::create_dir(&kit.shelf.root).unwrap();
    let page = kit.shelf.root.join(DIGEST);
    fs::write(&page, "# My notes").unwrap();
    kit.bring(&some(&[5]), Look::Whole, &mut Freely).unwrap();
    assert_eq!(fs::read_to_string(&page).unwrap(), "# My notes");
    fs::remove_file(&page).unwrap();
    kit.bring(&some(&[5]), Look::Whole, &mut Freely).unwrap();
    assert!(fs::read_to_string(&page).unwrap().contains("done: 5"));
}

#[test]
fn what_is_found_is_only_what_the_catalog_says() {
    let kit = Kit::new();
    let engrams = some(&[1, 5, 6]);
    kit.bring(&engrams, Look::Whole, &mut Freely).unwrap();
    let found = |most| {
        let found = kit.shelf.found(most).into_iter();
        found.map(|(engram, _)| engram).collect::<Vec<_>>()
    };
    assert_eq!(found(10), engrams);
    assert_eq!(found(2), engrams[1..], "the newest");
    let file = kit.shelf.file(&catalog(&engrams).entries[1].path).unwrap();
    fs::write(&file, engrams[2].to_text()).unwrap();
    assert_eq!(found(10), [engrams[0].clone(), engrams[2].clone()]);
    fs::write(&kit.shelf.catalog, "[]").unwrap();
    assert!(found(10).is_empty());
}

#[cfg(unix)]
#[test]
fn no_link_is_followed_out_of_the_directory() {
    use std::os::unix::fs::symlink;
    let kit = Kit::new();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::create_dir(&kit.shelf.root).unwrap();
    symlink(elsewhere.path(), kit.shelf.root.join("st")).unwrap();
    kit.bring(&some(&[5]), Look::Whole, &mut Freely)
        .unwrap_err();
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    // A file that is a link is replaced, not written through.
    fs::remove_file(kit.shelf.root.join("st")).unwrap();
    let outside = elsewhere.path().join("outside");
    fs::write(&outside, "theirs").unwrap();
    symlink(&outside, &kit.shelf.catalog).unwrap();
    kit.bring(&some(&[5]), Look::Whole, &mut Freely).unwrap();
    assert_eq!(fs::read_to_string(&outside).unwrap(), "theirs");
    kit.holds_what_it_names();
}

#[test]
fn two_hubs_of_one_project_write_one_after_the_other() {
    let kit = Kit::new();
    kit.bring(&some(&[5]), Look::Whole, &mut Freely).unwrap();
    let other = Alone::with(&kit.shelf.root).unwrap();
    let error = kit
        .bring(&some(&[5, 6]), Look::There, &mut Freely)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    drop(other);
    kit.bring(&some(&[5, 6]), Look::There, &mut Freely).unwrap();
}
