//! The ledger's SQLite file where Jetpack's tools look for it: `.jetpack/swarm.db` is a link to it.
//!
//! A database that those tools made there before is imported first, in one transaction of the ledger together with a
//! mark; then it is kept under another name, then the link takes its place. Killed anywhere in between, the next start
//! goes on from what it finds. How rows are read and written is `switchboard_store::swarm_db`; what they mean is decided
//! when the hub adopts them, like everything written by hand.

mod link;
mod opener;
mod report;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use switchboard_store::swarm_db::{self as store, Held, Report, Stopped, Unfit};

use link::Prepared;
pub use link::{LinkState, SwarmDb};

use crate::projection::folder;

/// Why the hub does not start: an old file that must not be touched now. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error(
        "{} is open{who}; stop the program that uses it and start the hub again, or ignore the file with [store] swarm_db = false",
        path.display()
    )]
    InUse { path: PathBuf, who: String },
    #[error(
        "{} cannot be imported, because it is not an intact database ({why}); restore or move it and start the hub again, or ignore the file with [store] swarm_db = false",
        path.display()
    )]
    Damaged { path: PathBuf, why: String },
    #[error(
        "{} cannot be imported ({why}); make it readable and writable and start the hub again, or ignore the file with [store] swarm_db = false",
        path.display()
    )]
    Unusable { path: PathBuf, why: String },
    #[error(
        "{} is a Switchboard ledger, not a database of Jetpack's tools; serve it with [store] path = \"{}\", or move it away",
        path.display(),
        SwarmDb::SHOWN
    )]
    IsLedger { path: PathBuf },
    #[error("nothing of {} was imported: {why}", path.display())]
    Import { path: PathBuf, why: String },
}

/// What a person is told about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// One line on what was imported, if anything was.
    pub imported: Option<String>,
    pub warnings: Vec<String>,
}

/// What will be done once the ledger is open. An old file is held by then, and nobody else gets at it.
#[derive(Debug)]
pub struct Plan {
    swarm: SwarmDb,
    step: Action,
}

#[derive(Debug)]
enum Action {
    Nothing,
    Warn(String),
    Link(Prepared),
    Renew(Prepared),
    Import(Held, Prepared),
    /// The ledger takes the old file's own place, which has been cleared for it.
    Replace(Held),
}

/// The name that an imported file is kept under; a number is added if it is taken.
const KEPT: &str = "swarm.db.before-switchboard";
/// The name of an old file whose place the ledger itself has taken, until it is imported.
const IMPORTING: &str = "swarm.db.importing";
/// So many names are tried.
const KEPT_MAX: u32 = 10_000;

impl SwarmDb {
    /// Looks at what is there, and refuses before anything was changed.
    pub fn plan(self) -> Result<Plan, Refused> {
        let step = match self.look() {
            LinkState::Ledger => self.left_over()?,
            LinkState::Linked => {
                // Whether it can be removed or not, the link itself is right.
                let _ = self.tidy();
                Action::Nothing
            }
            LinkState::Absent => self.prepared(Action::Link),
            LinkState::Stale { target } => {
                tracing::info!(
                    "{} was a link to {}, which is no longer the ledger; the link is replaced",
                    Self::SHOWN,
                    target.display()
                );
                self.prepared(Action::Renew)
            }
            LinkState::Served { target, by } => Action::Warn(format!(
                "{} is a link to {}, the ledger of another running hub of this project ({by}), and is not changed: tools that open it reach that hub, not this one",
                Self::SHOWN,
                target.display()
            )),
            LinkState::Foreign { target } => Action::Warn(format!(
                "{} is a link to {}, which is not this hub's ledger, and is not changed; remove it and restart the hub to link it to the ledger",
                Self::SHOWN,
                target.display()
            )),
            LinkState::Odd => Action::Warn(format!(
                "{} is neither a file nor a link, and is not changed; move it away and restart the hub to link it to the ledger",
                Self::SHOWN
            )),
            LinkState::Unreadable { why } => Action::Warn(self.cannot_link(&why)),
            LinkState::Old if self.is_in_place() => self.make_room()?,
            LinkState::Old => match self.prepare() {
                Ok(link) => Action::Import(take(&self.path())?, link),
                Err(error) => Action::Warn(format!(
                    "{}; its content was not imported",
                    self.cannot_link(&error.to_string())
                )),
            },
        };
        Ok(Plan { swarm: self, step })
    }

    fn prepared(&self, step: fn(Prepared) -> Action) -> Action {
        match self.prepare() {
            Ok(link) => step(link),
            Err(error) => Action::Warn(self.cannot_link(&error.to_string())),
        }
    }

    /// An old file stands where the ledger is to be.
    fn make_room(&self) -> Result<Action, Refused> {
        let mut held = take(&self.path())?;
        let aside = self.folder().join(IMPORTING);
        rename(&mut held, &aside).map_err(|error| Refused::Unusable {
            path: self.path(),
            why: error.to_string(),
        })?;
        Ok(Action::Replace(held))
    }

    /// An earlier start made room for the ledger, and was ended before it could import.
    fn left_over(&self) -> Result<Action, Refused> {
        let aside = self.folder().join(IMPORTING);
        if fs::symlink_metadata(&aside).is_ok_and(|found| found.is_file()) {
            return take(&aside).map(Action::Replace);
        }
        Ok(Action::Nothing)
    }

    fn cannot_link(&self, why: &str) -> String {
        let shown = Self::SHOWN;
        format!(
            "{shown} cannot be linked to the ledger ({why}), so tools that open it do not reach this hub; set [store] path = \"{shown}\" to put the ledger itself there"
        )
    }
}

impl Plan {
    /// Carries it out, with the ledger's schema in place.
    pub fn carry_out(self) -> Result<Told, Refused> {
        let Plan { swarm, step } = self;
        let mut told = Told::default();
        match step {
            Action::Nothing => {}
            Action::Warn(warning) => told.warnings.push(warning),
            Action::Link(link) => told.link(&swarm, link.settle()),
            Action::Renew(link) => told.link(&swarm, link.renew()),
            Action::Import(mut held, link) => {
                let report = import(&held, swarm.ledger())?;
                if let Some(kept) = told.keep(report.as_ref(), &mut held) {
                    told.link(&swarm, link.settle());
                    told.still_open(&kept);
                }
            }
            Action::Replace(mut held) => {
                let report = import(&held, swarm.ledger())?;
                if let Some(kept) = told.keep(report.as_ref(), &mut held) {
                    told.still_open(&kept);
                }
            }
        }
        Ok(told)
    }

    /// The same while the ledger takes no writes: an import is left to the next start, which finds everything as it was.
    pub fn carry_out_without_import(self) -> Result<Told, Refused> {
        match &self.step {
            Action::Nothing | Action::Warn(_) | Action::Link(_) | Action::Renew(_) => {
                self.carry_out()
            }
            Action::Import(held, _) | Action::Replace(held) => Ok(Told {
                imported: None,
                warnings: vec![format!(
                    "{} was not imported, because the ledger is not writable yet; restart the hub once it is",
                    held.path().display()
                )],
            }),
        }
    }
}

impl Told {
    /// Into the log. The line on what was imported is handed on, for whoever started the hub.
    pub fn log(self) -> Option<String> {
        for warning in &self.warnings {
            tracing::warn!("{warning}");
        }
        if let Some(line) = &self.imported {
            tracing::info!("{line}");
        }
        self.imported
    }

    fn link(&mut self, swarm: &SwarmDb, made: io::Result<()>) {
        if let Err(error) = made {
            self.warnings.push(swarm.cannot_link(&error.to_string()));
        }
    }

    /// No report is that an earlier start imported it, and was ended before it could rename it.
    fn keep(&mut self, report: Option<&Report>, held: &mut Held) -> Option<PathBuf> {
        let shown = SwarmDb::SHOWN;
        let kept = match keep(held) {
            Ok(kept) => kept,
            Err(error) => {
                self.warnings.push(format!(
                    "{} was imported but cannot be renamed ({error}); move it away and restart the hub, until then tools that open it do not reach this hub",
                    held.path().display()
                ));
                return None;
            }
        };
        let name = kept.file_name().unwrap_or_default();
        let name = Path::new(shown).with_file_name(name).display().to_string();
        match report {
            Some(report) => {
                self.imported = Some(report::line(report, &name));
                self.warnings.extend(report::warnings(report, &name));
            }
            None => {
                self.imported = Some(format!(
                    "{shown} was imported earlier; it is kept as {name}"
                ));
            }
        }
        Some(kept)
    }

    /// Somebody may have opened it while it was held, and waits.
    fn still_open(&mut self, kept: &Path) {
        if let Some(who) = opener::opener_of(kept) {
            self.warnings.push(format!(
                "the old {} is still open{who}, which cannot write to it any more; start that program again",
                SwarmDb::SHOWN
            ));
        }
    }
}

/// What is said where the ledger is no file: tools that open this one do not reach the hub.
pub fn hint(project: &Path) -> Option<String> {
    let swarm = SwarmDb::new(project, Path::new(""));
    fs::symlink_metadata(swarm.path()).is_ok().then(|| {
        format!(
            "{} is not changed: this hub's ledger is in PostgreSQL, where tools reach it",
            SwarmDb::SHOWN
        )
    })
}

/// Makes sure that nobody else has the file. Nothing of it has changed if this fails.
fn take(path: &Path) -> Result<Held, Refused> {
    let in_use = |who| Refused::InUse {
        path: path.to_owned(),
        who,
    };
    if let Some(who) = opener::opener_of(path) {
        return Err(in_use(who));
    }
    Held::take(path).map_err(|unfit| {
        let path = path.to_owned();
        match unfit {
            Unfit::InUse => in_use(String::new()),
            Unfit::Damaged(why) => Refused::Damaged { path, why },
            Unfit::Unusable(why) => Refused::Unusable { path, why },
            Unfit::IsLedger => Refused::IsLedger { path },
        }
    })
}

/// `None`: this very file was imported before.
fn import(held: &Held, ledger: &Path) -> Result<Option<Report>, Refused> {
    store::import(held, ledger).map_err(|stopped| {
        let path = held.path().to_owned();
        match stopped {
            Stopped::Old(why) => Refused::Damaged { path, why },
            stopped @ Stopped::Ledger(_) => Refused::Import {
                path,
                why: stopped.to_string(),
            },
        }
    })
}

fn rename(held: &mut Held, to: &Path) -> io::Result<()> {
    held.rename(to)?;
    folder::sync_at(to.parent().unwrap_or(Path::new("")))
}

/// Renames an imported file to the first name that is free.
fn keep(held: &mut Held) -> io::Result<PathBuf> {
    let folder = held.path().parent().unwrap_or(Path::new("")).to_owned();
    let names = (1..=KEPT_MAX).map(|n| match n {
        1 => KEPT.to_owned(),
        n => format!("{KEPT}-{n}"),
    });
    for name in names {
        let kept = folder.join(&name);
        if fs::symlink_metadata(&kept).is_err() {
            rename(held, &kept)?;
            return Ok(kept);
        }
    }
    Err(io::Error::other(format!(
        "every name from {KEPT} on is taken"
    )))
}
