//! Whether a worker has drifted from main or from the catalog, and telling it so once.

use std::sync::Arc;

use switchboard_wire::agentbus::catalog::Catalog;
use switchboard_wire::agentbus::message::{Hello, SyncPolicy, SyncRequired};
use switchboard_wire::agentbus::session::Peer;
use switchboard_wire::agentbus::{SyncAction, SyncReason};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::super::drift::{Behind, Expected, Main, Seen, Told};
use super::super::memory;
use super::super::server::BusState;
use super::Worker;
use crate::config;

/// What it last revealed, and what it was told for it.
pub(super) struct DriftWatch {
    ancestor: Option<Box<str>>,
    catalog: Option<Box<str>>,
    lower_minor: bool,
    told: Told,
    main: watch::Receiver<Option<Main>>,
    catalogs: Option<watch::Receiver<Arc<Catalog>>>,
    /// Git is asked; that may take a while, and nobody waits for it.
    asked: Option<AbortOnDropHandle<Behind>>,
}

impl DriftWatch {
    pub fn new(bus: &BusState, hello: &Hello, peer: &Peer) -> DriftWatch {
        let repo = hello.repo.as_ref();
        let kept = |text: Option<&String>| text.map(|text| text.as_str().into());
        let mut watch = DriftWatch {
            ancestor: kept(repo.and_then(|repo| repo.main_ancestor_sha.as_ref())),
            catalog: kept(repo.and_then(|repo| repo.catalog_hash_seen.as_ref())),
            lower_minor: peer.agreed.lowered,
            told: Told::default(),
            main: bus.drift.watch(),
            catalogs: memory::watch(bus),
            asked: None,
        };
        watch.main.mark_unchanged();
        watch
    }

    /// Whether this is something new.
    pub fn reveals(&mut self, ancestor: Option<&str>, catalog: Option<&str>) -> bool {
        let is_new = |known: &Option<Box<str>>, said: Option<&str>| {
            said.is_some() && known.as_deref() != said
        };
        let news = is_new(&self.ancestor, ancestor) || is_new(&self.catalog, catalog);
        if news {
            self.ancestor = ancestor.map(Into::into).or(self.ancestor.take());
            self.catalog = catalog.map(Into::into).or(self.catalog.take());
        }
        news
    }

    /// Waits until something else is expected, or until git has answered.
    pub async fn moved(&mut self) -> Option<Behind> {
        let (catalogs, asked) = (&mut self.catalogs, &mut self.asked);
        let answer = async {
            match asked {
                Some(answer) => answer.await.unwrap_or(Behind::Unanswered),
                None => std::future::pending().await,
            }
        };
        let catalog = async {
            if let Some(catalogs) = catalogs
                && catalogs.changed().await.is_ok()
            {
                return;
            }
            std::future::pending().await
        };
        tokio::select! {
            Ok(()) = self.main.changed() => None,
            () = catalog => None,
            behind = answer => {
                self.asked = None;
                Some(behind)
            }
        }
    }
}

impl Worker {
    /// Compares what it revealed with what is expected now, once git has said how far behind it is.
    pub(super) fn check_drift(&mut self, bus: &BusState) {
        match &self.sync.ancestor {
            Some(sha) => {
                let (drift, sha) = (bus.drift.clone(), sha.clone());
                let asked = tokio::spawn(async move { drift.behind(&sha).await });
                self.sync.asked = Some(AbortOnDropHandle::new(asked));
            }
            None => self.judge_drift(bus, None),
        }
    }

    pub(super) fn judge_drift(&mut self, bus: &BusState, behind: Option<Behind>) {
        let expected = Expected {
            main_sha: bus.drift.main_sha(),
            catalog_hash: memory::catalog_hash(bus),
        };
        let seen = Seen {
            behind,
            catalog_hash: self.sync.catalog.as_deref(),
            lower_minor: self.sync.lower_minor,
        };
        let verdict = bus.drift_policy.judge(&seen, &expected);
        if let Some(reason) = self.sync.told.news(&verdict, &expected) {
            self.tell(required(bus, reason, &expected));
        }
    }
}

fn required(bus: &BusState, reason: SyncReason, expected: &Expected) -> SyncRequired {
    let policy = &bus.drift_policy;
    SyncRequired {
        reason,
        main_sha_expected: expected.main_sha_or_unknown().to_owned(),
        catalog_hash_expected: expected.catalog_hash.clone(),
        policy: SyncPolicy {
            max_commits_behind: Some(policy.max_commits_behind.into()),
            max_seconds_behind: Some(policy.max_seconds_behind.into()),
            require_catalog_hash_match: Some(policy.require_catalog_hash_match),
        },
        required_action: match policy.required_action {
            config::SyncAction::MergeMain => SyncAction::MergeMain,
            config::SyncAction::RebaseMain => SyncAction::RebaseMain,
        },
    }
}
