//! Finding the hub: where it listens, and whether whoever said so still runs.
//!
//! A running hub leaves `hub.json` in its data directory, and holds the lock there. That directory is `.switchboard`, or
//! what the settings name, of the current directory or one above it and, inside a git worktree, of the main worktree,
//! because that is where the hub serves all of them. What somebody else could have written is not followed.

use std::fs;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;
use switchboard_client::Fingerprint;
use switchboard_hub::data_dir::Holder;

use crate::project;

/// The directory a hub keeps its state in, below the project.
pub const DATA_DIR: &str = ".switchboard";
/// The file in it by which a hub is found.
pub const HUB_FILE: &str = "hub.json";

/// Largest `hub.json` that is read.
const HUB_FILE_MAX: u64 = 64 * 1024;

/// What a running hub says about itself.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HubFile {
    pub pid: u32,
    /// `host:port` as bound.
    pub http: String,
    #[serde(default)]
    pub tls: bool,
    /// Of the certificate, if it serves TLS.
    #[serde(default)]
    tls_fingerprint: Option<String>,
    #[serde(default)]
    pub tls_self_signed: bool,
    /// The URL that agents use.
    #[serde(default)]
    pub address: Option<String>,
    /// `host:port` of the bus, if it listens.
    #[serde(default)]
    pub bus: Option<String>,
    #[serde(default)]
    pub bus_tls: bool,
    /// `host:port` of the broker, if it listens.
    #[serde(default)]
    broker: Option<String>,
    #[serde(default)]
    broker_tls: bool,
    /// Where its ledger is, without a password. A hub of an older build does not say.
    #[serde(default)]
    pub store: Option<String>,
    #[serde(default)]
    pub started_at: Option<String>,
    #[serde(default)]
    pub version: Option<String>,
}

/// The outcome of looking for a hub from a directory.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// `hub.json` was found, and whoever wrote it holds the lock.
    Running { data_dir: PathBuf, hub: HubFile },
    /// `hub.json` was found, but nobody holds the lock: the hub was killed.
    Gone { data_dir: PathBuf, hub: HubFile },
    /// `hub.json` was found and cannot be read, or somebody else could have written it.
    Unreadable { file: PathBuf, reason: String },
    /// No `hub.json` anywhere it could be.
    Nothing,
}

impl HubFile {
    /// The address a client on this machine uses: a wildcard bind is reached over loopback.
    pub fn url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}", reachable(&self.http))
    }

    /// Whether a person who names this address means this hub.
    pub fn is_at(&self, url: &str) -> bool {
        let url = url.trim_end_matches('/');
        let local = url.replace("://localhost:", "://127.0.0.1:");
        local == self.url() || self.address.as_deref() == Some(url)
    }

    /// The certificate to expect there.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.tls_fingerprint.as_ref()?.parse().ok()
    }

    /// Where a worker or an operator on this machine connects; none if the bus is off.
    pub fn bus_addr(&self) -> Option<String> {
        self.bus.as_deref().map(reachable)
    }

    /// Where a role on this machine connects; none if the broker is off.
    pub fn broker_url(&self) -> Option<String> {
        let scheme = if self.broker_tls { "wss" } else { "ws" };
        let addr = reachable(self.broker.as_deref()?);
        Some(format!("{scheme}://{addr}"))
    }
}

fn reachable(bound: &str) -> String {
    let wildcards = [("0.0.0.0:", "127.0.0.1:"), ("[::]:", "[::1]:")];
    for (wildcard, loopback) in wildcards {
        if let Some(port) = bound.strip_prefix(wildcard) {
            return format!("{loopback}{port}");
        }
    }
    bound.to_owned()
}

/// Looks for a hub from `start` upward, then in the main worktree of the git repository around `start`.
pub fn find(start: &Path) -> Found {
    let mut best = Found::Nothing;
    for data_dir in data_dirs(start) {
        match look(&data_dir) {
            running @ Found::Running { .. } => return running,
            Found::Nothing => {}
            other => {
                if best == Found::Nothing {
                    best = other;
                }
            }
        }
    }
    best
}

/// The data directory to use when no hub runs: the nearest one that exists, else the one `up` would make.
pub fn data_dir(start: &Path) -> PathBuf {
    let fallback = main_worktree(start)
        .unwrap_or_else(|| start.to_owned())
        .join(DATA_DIR);
    data_dirs(start)
        .into_iter()
        .find(|dir| dir.is_dir())
        .unwrap_or(fallback)
}

/// The root of the main worktree around `start`, if `start` is inside a git repository.
pub fn main_worktree(start: &Path) -> Option<PathBuf> {
    let output = Command::new("git")
        .args(["rev-parse", "--path-format=absolute", "--git-common-dir"])
        .current_dir(start)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let common = PathBuf::from(
        String::from_utf8(output.stdout)
            .ok()?
            .trim_end_matches('\n'),
    );
    // A bare repository and a submodule have no worktree beside their common directory.
    (common.file_name()? == ".git").then(|| common.parent().map(Path::to_owned))?
}

/// Where a hub for `start` may have its state: as the settings of a directory say, and below it, from `start` upward.
fn data_dirs(start: &Path) -> Vec<PathBuf> {
    let main = main_worktree(start);
    let mut dirs = Vec::new();
    for root in start.ancestors().chain(main.as_deref()) {
        dirs.extend(project::data_dir_by_settings(root));
        dirs.push(root.join(DATA_DIR));
    }
    dirs
}

/// Whether commands in `start` look there by themselves.
pub fn finds(start: &Path, data_dir: &Path) -> bool {
    data_dirs(start).iter().any(|dir| dir == data_dir)
}

/// What is found in one data directory.
pub fn look(data_dir: &Path) -> Found {
    let file = data_dir.join(HUB_FILE);
    let read = match read_own(&file, HUB_FILE_MAX) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Found::Nothing,
        read => read.map_err(|error| error.to_string()),
    };
    let data_dir = data_dir.to_owned();
    match read
        .and_then(|text| serde_json::from_str::<HubFile>(&text).map_err(|error| error.to_string()))
    {
        // Whoever holds the lock wrote its id into it; a hub that was killed holds nothing.
        Ok(hub) if Holder::of(&data_dir).is_some_and(|by| by.pid == Some(hub.pid)) => {
            Found::Running { data_dir, hub }
        }
        Ok(hub) => Found::Gone { data_dir, hub },
        Err(reason) => Found::Unreadable { file, reason },
    }
}

/// Reads a file that nobody else can have put there: it is the caller's or root's, and nobody else may write it.
pub fn read_own(file: &Path, bytes_max: u64) -> io::Result<String> {
    let refused = |why: String| Err(io::Error::new(ErrorKind::PermissionDenied, why));
    let opened = fs::OpenOptions::new()
        .read(true)
        // A pipe in its place must not keep anybody waiting.
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
        .open(file)?;
    let meta = opened.metadata()?;
    let (owner, mode) = (meta.uid(), meta.mode() & 0o777);
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return refused(format!("it belongs to another user (uid {owner})"));
    }
    if mode & 0o022 != 0 {
        return refused(format!("others may write to it (mode {mode:o})"));
    }
    if !meta.is_file() || meta.len() > bytes_max {
        return refused(format!("it is not a file of at most {bytes_max} bytes"));
    }
    let mut text = String::new();
    opened.take(bytes_max).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
impl HubFile {
    pub fn at(http: &str) -> HubFile {
        let text = format!(r#"{{"pid":1,"http":"{http}"}}"#);
        serde_json::from_str(&text).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use switchboard_hub::data_dir::DataDir;

    use super::*;

    /// As a hub of this process leaves it.
    fn write_hub(root: &Path) -> PathBuf {
        let dir = root.join(DATA_DIR);
        fs::create_dir_all(&dir).unwrap();
        let pid = std::process::id();
        let text = format!(
            r#"{{"pid":{pid},"http":"127.0.0.1:7373","tls":false,"startedAt":"2026-01-01T00:00:00.000Z","version":"0.1.0"}}"#
        );
        fs::write(dir.join(HUB_FILE), text).unwrap();
        dir
    }

    fn git(dir: &Path, args: &[&str]) {
        let status = Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@example.com"])
            .args(args)
            .current_dir(dir)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success(), "git {args:?}");
    }

    #[test]
    fn a_hub_is_found_from_a_directory_below_it() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("a/b/c");
        fs::create_dir_all(&deep).unwrap();
        let dir = write_hub(root.path());
        let _held = DataDir::open(&dir).unwrap();
        match find(&deep) {
            Found::Running { data_dir, hub } => {
                assert_eq!(data_dir, dir);
                assert_eq!(hub.url(), "http://127.0.0.1:7373");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_hub_runs_while_it_holds_the_lock_and_one_further_up_wins_over_one_that_is_gone() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("inner");
        fs::create_dir_all(&inner).unwrap();
        let dir = write_hub(&inner);
        assert!(matches!(find(&inner), Found::Gone { .. }), "no lock");
        let held = DataDir::open(&dir).unwrap();
        assert!(matches!(find(&inner), Found::Running { .. }));
        // This very process lives, which says nothing.
        drop(held);
        assert!(matches!(find(&inner), Found::Gone { .. }));
        let _outer = DataDir::open(&write_hub(root.path())).unwrap();
        assert!(matches!(find(&inner), Found::Running { .. }));
    }

    #[test]
    fn what_another_process_left_is_not_the_hub_that_holds_the_lock() {
        let root = tempfile::tempdir().unwrap();
        let dir = write_hub(root.path());
        let _held = DataDir::open(&dir).unwrap();
        let file = dir.join(HUB_FILE);
        let text = fs::read_to_string(&file).unwrap();
        let pid = format!("\"pid\":{}", std::process::id());
        fs::write(&file, text.replace(&pid, "\"pid\":1")).unwrap();
        assert!(matches!(find(root.path()), Found::Gone { .. }));
    }

    #[test]
    fn what_others_could_have_written_is_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let dir = write_hub(root.path());
        let _held = DataDir::open(&dir).unwrap();
        let file = dir.join(HUB_FILE);
        let said = || match find(root.path()) {
            Found::Unreadable { reason, .. } => reason,
            other => panic!("{other:?}"),
        };
        for (mode, why) in [(0o666, "mode 666"), (0o620, "mode 620")] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            assert!(said().contains(why), "{}", said());
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(find(root.path()), Found::Running { .. }));
        // Only root can give files away.
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&file, Some(12_345), None).unwrap();
            assert!(said().contains("uid 12345"), "{}", said());
        }
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert!(said().contains("not a file"), "{}", said());
    }

    #[test]
    fn a_broken_hub_file_is_reported_and_not_taken_for_none() {
        let root = tempfile::tempdir().unwrap();
        let dir = write_hub(root.path());
        fs::write(dir.join(HUB_FILE), "{").unwrap();
        assert!(matches!(find(root.path()), Found::Unreadable { .. }));
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(find(empty.path()), Found::Nothing);
    }

    #[test]
    fn a_linked_worktree_finds_the_hub_of_the_main_one() {
        let root = tempfile::tempdir().unwrap();
        let main = root.path().join("main");
        let side = root.path().join("side");
        fs::create_dir_all(&main).unwrap();
        git(&main, &["init", "-q"]);
        git(&main, &["commit", "-q", "--allow-empty", "-m", "one"]);
        git(&main, &["worktree", "add", "-q", side.to_str().unwrap()]);
        let _held = DataDir::open(&write_hub(&main)).unwrap();
        assert!(matches!(find(&side), Found::Running { .. }));
        assert_eq!(
            data_dir(&side).canonicalize().unwrap(),
            main.join(DATA_DIR).canonicalize().unwrap()
        );
    }

    #[test]
    fn wildcard_addresses_are_reached_over_loopback() {
        let hub = |http: &str, tls| HubFile {
            tls,
            bus: Some("0.0.0.0:8731".to_owned()),
            ..HubFile::at(http)
        };
        assert_eq!(hub("0.0.0.0:80", true).url(), "https://127.0.0.1:80");
        assert_eq!(hub("[::]:80", false).url(), "http://[::1]:80");
        assert_eq!(
            hub("[::]:80", false).bus_addr().as_deref(),
            Some("127.0.0.1:8731")
        );
        assert_eq!(hub("10.0.0.0:80", false).url(), "http://10.0.0.0:80");
    }
}
