//! A desk with one of everything: agents in each standing, tasks in each state, messages, leases.

use std::time::Duration;

use switchboard_core::verb::{
    AcquireLease, Cancel, Claim, Complete, CreateTasks, Deregister, Fail, Filter, NewTask,
    ReportProgress,
};
use switchboard_core::{FailureKind, GatePolicy, LeasePath, Phase, TaskId};
use switchboard_store::conformance::{AnyVerb, register, send};

use super::desk::Desk;

/// A task of each public word; the id is the word.
pub const WORDS: &[&str] = &[
    "pending",
    "ready",
    "blocked",
    "claimed",
    "in_progress",
    "pending_retry",
    "needs_review",
    "completed",
    "failed",
    "canceled",
];

/// Agents ann (who holds what is held), bob and zoe (who is gone); a task of each word; messages `to-bob` and
/// `to-all`; ann's leases on `src/a.rs` and `lib/**/*.rs`.
pub fn stage() -> Desk {
    let mut desk = Desk::new();
    let mut run = |verb: &dyn AnyVerb| {
        let replies = desk.run(512, &[verb]);
        assert!(!replies[0].contains("not "), "{verb:?}: {replies:?}");
    };
    for id in ["ann", "bob", "zoe"] {
        run(&register(id, &[]));
    }
    run(&Deregister {
        agent: "zoe".into(),
    });
    for word in &WORDS[1..] {
        let mut new = NewTask::plain(*word, word);
        if *word == "blocked" {
            new.dependencies.push("ready".into());
        }
        run(&CreateTasks { tasks: vec![new] });
    }
    let hold = |id: &str| Claim {
        agent: "ann".into(),
        filter: Filter::default(),
        task: Some(id.into()),
    };
    for id in [
        "claimed",
        "in_progress",
        "pending_retry",
        "needs_review",
        "completed",
        "failed",
    ] {
        run(&hold(id));
    }
    run(&ReportProgress {
        agent: "ann".into(),
        task: "in_progress".into(),
        epoch: None,
        phase: Phase::Testing,
        percent: 50,
        note: String::new(),
        files: Vec::new(),
    });
    for (id, recoverable) in [("pending_retry", true), ("failed", false)] {
        run(&Fail {
            agent: "ann".into(),
            task: id.into(),
            epoch: None,
            kind: FailureKind::TaskError,
            message: "it broke".to_owned(),
            details: None,
            recoverable,
            suggested_action: None,
            is_free: false,
        });
    }
    for (id, require_metrics) in [("completed", false), ("needs_review", true)] {
        let policy = GatePolicy {
            require_metrics,
            ..GatePolicy::default()
        };
        run(&Complete {
            agent: "ann".into(),
            task: id.into(),
            epoch: None,
            result: "{}".into(),
            learnings: Vec::new(),
            metrics: None,
            evidence: Vec::new(),
            policy: policy.into(),
            finding: None,
        });
    }
    run(&Cancel {
        task: "canceled".into(),
        reason: "unwanted".to_owned(),
    });
    run(&send("to-bob", "ann", Some("bob")));
    run(&send("to-all", "ann", None));
    for path in ["src/a.rs", "lib/**/*.rs"] {
        run(&AcquireLease {
            agent: "ann".into(),
            task: (path == "src/a.rs").then(|| TaskId::from("claimed")),
            epoch: None,
            path: LeasePath::stored(path),
            lasts_for: Duration::from_secs(3600),
        });
    }
    desk.by_hand("INSERT INTO tasks(id, title) VALUES ('pending', 'pending')");
    desk
}
