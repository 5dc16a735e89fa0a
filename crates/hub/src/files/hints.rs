//! Word of new files, from the system. A hint only: what is missed is found by looking.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use notify::event::{AccessKind, AccessMode, ModifyKind, RenameMode};
use notify::{Config, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Names that are remembered until somebody asks; past it, the whole directory is looked through.
const NAMES_MAX: usize = 4096;

#[derive(Default)]
pub struct Hints {
    inbox: Arc<Inbox>,
    /// And which directory it watches.
    watcher: Option<(RecommendedWatcher, u64)>,
    /// It was said that watching does not work.
    complained: bool,
}

#[derive(Default)]
struct Inbox {
    heard: Mutex<Heard>,
    bell: Notify,
}

/// What was heard of.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Heard {
    pub names: HashSet<OsString>,
    /// More than could be remembered.
    pub more: bool,
}

impl Hints {
    /// Watches this directory, unless it does already.
    pub fn watch(&mut self, path: &Path, id: u64) {
        if matches!(self.watcher, Some((_, watched)) if watched == id) {
            return;
        }
        self.watcher = None;
        match watcher(path, Arc::clone(&self.inbox)) {
            Ok(watcher) => self.watcher = Some((watcher, id)),
            Err(error) if !self.complained => {
                self.complained = true;
                tracing::warn!(
                    "{} cannot be watched ({error}); new files are found by polling",
                    path.display()
                );
            }
            Err(_) => {}
        }
    }

    pub fn heard_so_far(&self) -> Heard {
        std::mem::take(&mut *self.inbox.heard.lock())
    }

    /// Until something is heard.
    pub async fn heard(&self) -> Heard {
        loop {
            let heard = self.heard_so_far();
            if heard != Heard::default() {
                return heard;
            }
            self.inbox.bell.notified().await;
        }
    }
}

fn watcher(path: &Path, inbox: Arc<Inbox>) -> notify::Result<RecommendedWatcher> {
    let config = Config::default().with_follow_symlinks(false);
    let mut watcher = RecommendedWatcher::new(move |event| inbox.hear(event), config)?;
    watcher.watch(path, RecursiveMode::NonRecursive)?;
    Ok(watcher)
}

impl Inbox {
    fn hear(&self, event: notify::Result<Event>) {
        let mut heard = self.heard.lock();
        match event {
            Ok(event) if event.need_rescan() => heard.more = true,
            Ok(event) if tells_of_a_file(event.kind) => {
                for path in &event.paths {
                    heard.add(path);
                }
            }
            Ok(_) => return,
            Err(_) => heard.more = true,
        }
        drop(heard);
        self.bell.notify_one();
    }
}

impl Heard {
    fn add(&mut self, path: &Path) {
        use std::os::unix::ffi::OsStrExt as _;
        let Some(name) = path.file_name() else {
            return;
        };
        if !super::request_file::is_request(name.as_bytes()) {
            return;
        }
        if self.names.len() < NAMES_MAX {
            self.names.insert(name.to_owned());
        } else {
            self.more = true;
        }
    }
}

/// Whether a file may be there, whole, that was not before.
fn tells_of_a_file(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) | EventKind::Remove(_) => false,
        EventKind::Modify(ModifyKind::Name(RenameMode::From)) => false,
        EventKind::Any | EventKind::Create(_) | EventKind::Modify(_) | EventKind::Other => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_names_are_remembered_and_then_only_that_there_are_more() {
        let mut heard = Heard::default();
        for number in 0..NAMES_MAX {
            heard.add(Path::new(&format!("/x/{number}.json")));
        }
        assert!(!heard.more);
        heard.add(Path::new("/x/.half.json"));
        heard.add(Path::new("/x/notes.txt"));
        assert!(!heard.more, "what is no request is not remembered");
        heard.add(Path::new("/x/last.json"));
        assert!(heard.more);
        assert_eq!(heard.names.len(), NAMES_MAX);
    }

    #[tokio::test]
    async fn a_file_that_is_renamed_into_place_is_heard_of() {
        let home = tempfile::tempdir().unwrap();
        let mut hints = Hints::default();
        hints.watch(home.path(), 1);
        let (half, whole) = (home.path().join(".a"), home.path().join("a.json"));
        std::fs::write(&half, "{}").unwrap();
        std::fs::rename(&half, &whole).unwrap();
        let heard = tokio::time::timeout(std::time::Duration::from_secs(20), hints.heard());
        let heard = heard.await.unwrap();
        assert!(heard.names.contains(&OsString::from("a.json")), "{heard:?}");
    }
}
