//! Word of new files, from the system. A hint only: what is missed is found by looking.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use notify::event::{AccessKind, AccessMode, ModifyKind, RenameMode};
use notify::{Config, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Names that are remembered until somebody asks; past it, the whole directory is looked through.
const NAMES_MAX: usize = 4096;

pub struct Hints {
    inbox: Arc<Inbox>,
    /// And which directory it watches.
    watcher: Option<(RecommendedWatcher, u64)>,
    /// It was said that watching does not work.
    complained: bool,
}

/// What is worth hearing of.
#[derive(Clone, Copy)]
pub struct Interest {
    pub is_ours: fn(name: &[u8]) -> bool,
    /// Whether only files that were just closed or moved into place are told of, or whatever may be there now.
    pub only_whole: bool,
}

struct Inbox {
    interest: Interest,
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
    pub fn new(interest: Interest) -> Hints {
        Hints {
            inbox: Arc::new(Inbox {
                interest,
                heard: Mutex::default(),
                bell: Notify::new(),
            }),
            watcher: None,
            complained: false,
        }
    }

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
            Ok(event) if self.interest.is_met_by(event.kind) => {
                for path in &event.paths {
                    heard.add(path, self.interest.is_ours);
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
    fn add(&mut self, path: &Path, is_ours: fn(&[u8]) -> bool) {
        let Some(name) = path.file_name().filter(|name| is_ours(name.as_bytes())) else {
            return;
        };
        if self.names.len() < NAMES_MAX {
            self.names.insert(name.to_owned());
        } else {
            self.more = true;
        }
    }
}

impl Interest {
    /// Whether a file may be there, whole, that was not before.
    fn is_met_by(self, kind: EventKind) -> bool {
        match kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
            EventKind::Access(_) | EventKind::Remove(_) => false,
            EventKind::Modify(ModifyKind::Name(RenameMode::From)) => false,
            EventKind::Modify(ModifyKind::Name(_)) => true,
            EventKind::Any | EventKind::Create(_) | EventKind::Modify(_) | EventKind::Other => {
                !self.only_whole
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_request(name: &[u8]) -> bool {
        name.ends_with(b".json") && !name.starts_with(b".")
    }

    #[test]
    fn so_many_names_are_remembered_and_then_only_that_there_are_more() {
        let mut heard = Heard::default();
        for number in 0..NAMES_MAX {
            heard.add(Path::new(&format!("/x/{number}.json")), is_request);
        }
        assert!(!heard.more);
        heard.add(Path::new("/x/.half.json"), is_request);
        heard.add(Path::new("/x/notes.txt"), is_request);
        assert!(!heard.more, "what is no request is not remembered");
        heard.add(Path::new("/x/last.json"), is_request);
        assert!(heard.more);
        assert_eq!(heard.names.len(), NAMES_MAX);
    }

    #[tokio::test]
    async fn a_file_that_is_renamed_into_place_is_heard_of() {
        let home = tempfile::tempdir().unwrap();
        let mut hints = Hints::new(Interest {
            is_ours: is_request,
            only_whole: true,
        });
        hints.watch(home.path(), 1);
        let (half, whole) = (home.path().join(".a"), home.path().join("a.json"));
        std::fs::write(&half, "{}").unwrap();
        std::fs::rename(&half, &whole).unwrap();
        let heard = tokio::time::timeout(std::time::Duration::from_secs(20), hints.heard());
        let heard = heard.await.unwrap();
        assert!(heard.names.contains(&OsString::from("a.json")), "{heard:?}");
    }
}
