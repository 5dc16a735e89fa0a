//! What git would commit of the hub's files: a ledger in a repository is in everyone's way, and its key in everyone's hands.

use std::path::Path;
use std::process::{Command, Stdio};

use switchboard_hub::config::DATA_DIR;
use switchboard_hub::swarm_db::SwarmDb;

use super::{Check, Scene};

const NAME: &str = "git";
/// So many files are named.
const NAMED_MAX: usize = 3;

/// Nothing to say where there is no git, or nothing of the hub's inside of the repository.
pub fn check(scene: &Scene) -> Option<Check> {
    let project = scene.project();
    let data_dir = scene.data_dir.strip_prefix(&project).ok()?;
    let paths = [data_dir, Path::new(SwarmDb::SHOWN)];
    let tracked = list(&project, &["--cached"], &paths)?;
    let untracked = list(&project, &["--others", "--exclude-standard"], &paths)?;
    let ignore = format!("add {DATA_DIR}/ and .jetpack/ to .gitignore");
    Some(if !tracked.is_empty() {
        let text = format!(
            "git has {} in the repository; run 'git rm --cached -r {}' and {ignore}; if the key was pushed, make a new one",
            named(&tracked),
            data_dir.display(),
        );
        Check::fail(NAME, text)
    } else if !untracked.is_empty() {
        let text = format!("git would commit {}; {ignore}", named(&untracked));
        Check::warn(NAME, text)
    } else {
        Check::ok(NAME, "nothing of the hub's would be committed")
    })
}

/// `ls-files` only reads, unlike `status`, which renews the index.
fn list(project: &Path, which: &[&str], paths: &[&Path]) -> Option<Vec<String>> {
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

    use super::super::State;
    use super::*;

    #[test]
    fn what_is_tracked_fails_what_is_not_ignored_is_warned_about() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().canonicalize().unwrap();
        let look = || check(&Scene::new(project.clone()));
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
    }
}
