//! What git would commit of the hub's files: a ledger in a repository is in everyone's way, and its key in everyone's hands.

use std::path::Path;
use std::process::{Command, Stdio};

use switchboard_hub::config::StoreAt;
use switchboard_hub::data_dir::ledger_files;
use switchboard_hub::swarm_db::SwarmDb;

use super::{Check, Scene};

const NAME: &str = "git";
/// So many files are named.
const NAMED_MAX: usize = 3;

/// Nothing to say where there is no git.
pub fn check(scene: &Scene) -> Option<Check> {
    let project = scene.project();
    let paths = paths(scene, &project);
    let tracked = list(&project, &["--cached"], &paths)?;
    let untracked = list(&project, &["--others", "--exclude-standard"], &paths)?;
    Some(if !tracked.is_empty() {
        let text = format!(
            "git tracks {}; remove them with 'git rm --cached' and add them to .gitignore; if the key was pushed, replace it with 'switchboard key rotate'",
            named(&tracked),
        );
        Check::fail(NAME, text)
    } else if !untracked.is_empty() {
        let text = format!(
            "git would commit {}; add them to .gitignore",
            named(&untracked)
        );
        Check::warn(NAME, text)
    } else {
        Check::ok(NAME, "would commit none of the hub's files")
    })
}

/// What of the hub's may lie in the repository, as git is asked for it.
fn paths(scene: &Scene, project: &Path) -> Vec<String> {
    let mut files = vec![scene.data_dir.clone()];
    if let StoreAt::Sqlite(ledger) = &scene.store {
        files.extend(ledger_files(ledger));
    }
    let jetpack = SwarmDb::new(project, Path::new("")).folder();
    files.extend(SwarmDb::FILES.map(|name| jetpack.join(name)));
    if let Some(config) = &scene.config {
        files.extend(config.leaves());
    }
    let inside = files
        .iter()
        .filter_map(|file| file.strip_prefix(project).ok());
    let inside = inside.filter_map(|file| Some(file.to_str()?.to_owned()));
    let backups = ":(glob)**/switchboard-backup-*.db".to_owned();
    inside
        .filter(|file| !file.is_empty())
        .chain([backups])
        .collect()
}

/// `ls-files` only reads, unlike `status`, which renews the index.
fn list(project: &Path, which: &[&str], paths: &[String]) -> Option<Vec<String>> {
    let output = Command::new("git")
        .args(["--no-optional-locks", "ls-files", "-z"])
        .args(which)
        .arg("--")
        .args(paths)
        .current_dir(project)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let names = text.split('\0').filter(|name| !name.is_empty());
    Some(names.map(str::to_owned).collect())
}

fn named(files: &[String]) -> String {
    let shown = files[..files.len().min(NAMED_MAX)].join(", ");
    match files.len().saturating_sub(NAMED_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use switchboard_hub::config::DATA_DIR;

    use super::super::State;
    use super::*;
    use crate::context::Context;

    #[test]
    fn what_is_tracked_fails_what_is_not_ignored_is_warned_about() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().canonicalize().unwrap();
        let look = || check(&Scene::new(&Context::at(&project)));
        assert_eq!(look(), None, "there is no repository");
        let git = |line: &str| {
            let mut command = Command::new("git");
            command.args(line.split(' ')).current_dir(&project);
            assert!(command.output().unwrap().status.success(), "{line}");
        };
        git("init -q");
        fs::create_dir(project.join(DATA_DIR)).unwrap();
        fs::write(project.join(DATA_DIR).join("key"), "x").unwrap();
        let found = look().unwrap();
        assert_eq!(found.state, State::Warn, "{}", found.text);
        assert!(found.text.contains(".switchboard/key"), "{}", found.text);
        git("add .switchboard/key");
        let found = look().unwrap();
        assert_eq!(found.state, State::Fail, "{}", found.text);
        assert!(found.text.contains("git rm --cached"), "{}", found.text);
        git("rm -q --cached .switchboard/key");
        fs::write(project.join(".gitignore"), ".switchboard/\n.jetpack/\n").unwrap();
        assert_eq!(look().unwrap().state, State::Ok);
        for (file, ignored) in [
            ("switchboard-backup-20260101T000000Z.db", "*.db\n"),
            ("memory/catalog.json", "memory/\n"),
        ] {
            fs::create_dir_all(project.join(file).parent().unwrap()).unwrap();
            fs::write(project.join(file), "x").unwrap();
            let found = look().unwrap();
            assert_eq!(found.state, State::Warn, "{}", found.text);
            assert!(found.text.contains(file), "{}", found.text);
            let mut text = fs::read_to_string(project.join(".gitignore")).unwrap();
            text.push_str(ignored);
            fs::write(project.join(".gitignore"), text).unwrap();
            assert_eq!(look().unwrap().state, State::Ok);
        }
        fs::write(
            project.join(".gitignore"),
            "*.db\n.switchboard/\n.jetpack/\n",
        )
        .unwrap();
        let said = "[memory]\nengram_root_dir = \"memory\"\n";
        fs::write(project.join("switchboard.toml"), said).unwrap();
        assert_eq!(look().unwrap().state, State::Ok, "it is to be committed");
    }
}
