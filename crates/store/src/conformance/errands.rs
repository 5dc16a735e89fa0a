//! The rest of the random deeds: completions, messages, leases, what a person orders, caretakers.

use std::sync::Arc;
use std::time::Duration;

use switchboard_core::agent::CommandKind;
use switchboard_core::quality::{GatePolicy, Metrics};
use switchboard_core::token::Scope;
use switchboard_core::verb::{
    Acknowledge, AcquireLease, BaselineSource, Cancel, ChangeTask, CheckLease, Complete,
    CreateToken, ExpireLeases, ExpireMessages, ExtendLease, IssueCommand, MarkSilent, Prune,
    Receive, ReleaseLease, ReleaseRetries, Retention, RetryTask, Review, RevokeToken, RotateKey,
    Ruling, Send, Serve, SetBaseline, Why,
};
use switchboard_core::{
    AgentId, CorrId, Door, LeasePath, Meaning, Message, MessageId, Patch, Priority, Sender,
    TaskStatus, To,
};

use super::deeds::{Deed, Maker};

const PATHS: &[&str] = &[
    ".",
    "src",
    "src/a.rs",
    "src/b.rs",
    "src/**",
    "src/*.rs",
    "docs/*.md",
    "docs/x.md",
    "ui/app.ts",
];

pub(super) fn complete(make: &mut Maker<'_>) -> Deed {
    let (agent, task, epoch) = make.held();
    let name = make.random.draw();
    let metrics = make.random.percent(60).then(|| {
        let metrics = metrics(make);
        (format!("q{name}").into(), metrics)
    });
    let learnings = if make.random.percent(30) {
        vec![(
            format!("l{name}").into(),
            format!("learned {name} about locks"),
        )]
    } else {
        Vec::new()
    };
    let policy = GatePolicy {
        move_baseline: make.random.percent(30),
        require_metrics: make.random.percent(10),
        ..GatePolicy::default()
    };
    Deed::other(Complete {
        agent,
        task,
        epoch,
        result: r#"{"summary":"done"}"#.into(),
        learnings,
        metrics,
        evidence: Vec::new(),
        policy: Arc::new(policy),
        finding: None,
    })
}

fn metrics(make: &mut Maker<'_>) -> Metrics {
    Metrics {
        build_success: make.random.percent(95),
        type_errors: u32::from(make.random.percent(10)),
        lint_errors: 0,
        lint_warnings: 2,
        tests_passing: 10,
        tests_failing: u32::from(make.random.percent(10)),
        test_coverage: make.random.percent(50).then_some(81.25),
    }
}

pub(super) fn message(make: &mut Maker<'_>) -> Deed {
    match make.random.below(10) {
        0..=4 => send(make),
        5..=6 => {
            let agent = make.agent();
            let only_custom = make.random.percent(20);
            Deed::other(Receive {
                agent,
                kinds: if only_custom {
                    vec!["custom".to_owned()]
                } else {
                    Vec::new()
                },
                limit: 1 + make.random.below(4) as usize,
                via: Door::Jetpack,
            })
        }
        _ => acknowledge(make),
    }
}

fn send(make: &mut Maker<'_>) -> Deed {
    let mut to = match make.random.below(10) {
        0..4 => To::Everyone,
        4..8 => To::One(make.agent()),
        _ => To::agents([make.agent(), make.agent()]).expect("two are named"),
    };
    let mut from = make.agent();
    let mut meaning = Meaning::Nothing;
    let mut kind = "info.discovery";
    match make.random.below(6) {
        0 | 1 => {
            let (holder, task, _) = make.held();
            from = holder;
            to = To::One(make.agent());
            meaning = Meaning::Offer(task);
            kind = "task.handoff";
        }
        2 => {
            meaning = Meaning::Wants(path(make));
            kind = "file.lock_request";
        }
        3 => kind = "custom",
        _ => {}
    }
    let id = if make.random.percent(4) {
        any_message(make).map_or_else(|| "m-new".into(), |message| message.id.clone())
    } else {
        format!("m{}", make.next).into()
    };
    let expires = make.random.percent(30);
    Deed::other(Send {
        corr_id: CorrId::new(format!("c-{id}")),
        id,
        from: Sender::Agent(from),
        to,
        kind: kind.to_owned(),
        payload: r#"{"a":[1,null,"x"]}"#.into(),
        ack_required: make.random.percent(50),
        priority: Priority::ALL[make.random.below(4) as usize],
        expires_in: expires.then(|| Duration::from_millis(1 + make.random.below(60_000))),
        meaning,
        claims: Vec::new(),
    })
}

fn any_message<'a>(make: &mut Maker<'a>) -> Option<&'a Message> {
    let seen = make.seen;
    make.random.pick(&seen.messages)
}

fn acknowledge(make: &mut Maker<'_>) -> Deed {
    let seen = make.seen;
    let delivery = make.random.pick(&seen.deliveries);
    let (message, agent): (MessageId, AgentId) = match delivery {
        Some(delivery) if make.random.percent(90) => {
            (delivery.message.clone(), delivery.agent.clone())
        }
        Some(delivery) => (delivery.message.clone(), make.agent()),
        None => ("m-none".into(), make.agent()),
    };
    let via = Door::Jetpack;
    Deed::other(Acknowledge {
        agent,
        message,
        via,
    })
}

fn path(make: &mut Maker<'_>) -> LeasePath {
    LeasePath::stored(make.random.pick(PATHS).copied().unwrap_or("src"))
}

pub(super) fn lease(make: &mut Maker<'_>) -> Deed {
    let seen = make.seen;
    let lasts_for = Duration::from_millis(1 + make.random.below(7_200_000));
    let mine = make.random.pick(&seen.leases);
    let (agent, path, fencing) = match mine {
        Some(lease) if make.random.percent(70) => {
            let fencing = make.random.percent(50).then_some(lease.fencing);
            (lease.agent.clone(), lease.path.clone(), fencing)
        }
        Some(_) | None => (make.agent(), path(make), None),
    };
    match make.random.below(10) {
        0..=5 => {
            let (holder, task, _) = make.held();
            let for_task = make.random.percent(60);
            Deed::other(AcquireLease {
                agent: if for_task { holder } else { agent },
                task: for_task.then_some(task),
                epoch: None,
                path: self::path(make),
                lasts_for,
            })
        }
        6 => Deed::other(ExtendLease {
            agent,
            path,
            lasts_for,
            fencing,
        }),
        7 | 8 => Deed::other(ReleaseLease {
            agent: make.random.percent(80).then_some(agent),
            path,
            fencing,
        }),
        _ => Deed::other(CheckLease {
            path,
            agent: make.random.percent(50).then_some(agent),
        }),
    }
}

pub(super) fn person(make: &mut Maker<'_>) -> Deed {
    match make.random.below(14) {
        0 | 1 => Deed::other(Cancel {
            task: make.task(),
            reason: "not wanted".to_owned(),
        }),
        2..=4 => Deed::other(RetryTask {
            task: make.task_that_is(&[
                TaskStatus::Failed,
                TaskStatus::Canceled,
                TaskStatus::RetryWait,
            ]),
        }),
        5 | 6 => change(make),
        7 | 8 => review(make),
        9 => command(make),
        10 => Deed::other(RotateKey {
            agent: make.agent(),
        }),
        11 => {
            let source = if make.random.percent(50) {
                BaselineSource::Given(metrics(make))
            } else {
                BaselineSource::Task(make.task())
            };
            Deed::other(SetBaseline {
                source,
                by: "a person".to_owned(),
            })
        }
        12 => token(make),
        _ => Deed::other(Why {
            task: make.task(),
            agent: make.random.percent(80).then(|| make.agent()),
        }),
    }
}

fn change(make: &mut Maker<'_>) -> Deed {
    let mut change = ChangeTask {
        task: make.task(),
        patch: Patch::default(),
    };
    match make.random.below(5) {
        0 => change.patch.title = Some("another title".to_owned()),
        1 => change.patch.priority = Some(make.priority()),
        2 => change.patch.required_skills = Some(make.skills(30)),
        3 => change.patch.estimated_minutes = Some(make.random.percent(50).then_some(15)),
        _ => change.patch.audience = Some(vec![make.agent()]),
    }
    Deed::other(change)
}

fn review(make: &mut Maker<'_>) -> Deed {
    let task = make.task_that_is(&[TaskStatus::NeedsPerson]);
    let rulings = [Ruling::Approve, Ruling::Redo, Ruling::Drop];
    Deed::other(Review {
        task,
        ruling: make
            .random
            .pick(&rulings)
            .copied()
            .unwrap_or(Ruling::Approve),
        reason: "looked at it".to_owned(),
    })
}

fn command(make: &mut Maker<'_>) -> Deed {
    let (agent, task, _) = make.held();
    let reason = "says a person".to_owned();
    let kind = match make.random.below(5) {
        0 => CommandKind::Shutdown { reason },
        1 | 2 => CommandKind::ReleaseTask { task, reason },
        _ => CommandKind::Ping,
    };
    Deed::other(IssueCommand {
        agent,
        id: format!("o{}", make.next).into(),
        kind,
    })
}

fn token(make: &mut Maker<'_>) -> Deed {
    let seen = make.seen;
    match make.random.pick(&seen.tokens) {
        Some(token) if make.random.percent(50) => Deed::other(RevokeToken {
            id: token.id.clone(),
        }),
        Some(_) | None => {
            let mut hash = [7; 32];
            hash[..8].copy_from_slice(&make.next.to_be_bytes());
            let scope = make.random.pick(Scope::ALL).copied();
            let scope = scope.unwrap_or(Scope::Viewer);
            Deed::other(CreateToken {
                id: format!("k{}", make.next).into(),
                name: "ci".to_owned(),
                scope,
                agent: (scope == Scope::Agent).then(|| "a1".into()),
                hash,
            })
        }
    }
}

pub(super) fn caretaker(make: &mut Maker<'_>) -> Deed {
    match make.random.below(7) {
        0 => Deed::other(MarkSilent),
        1 => Deed::other(ReleaseRetries),
        2 => Deed::other(ExpireLeases),
        3 => Deed::other(ExpireMessages),
        4 if make.random.percent(20) => Deed::other(Prune {
            keep: Retention {
                // Events stay: the log is looked at from its beginning.
                events: Duration::from_secs(1 << 32),
                messages: Duration::from_millis(make.random.below(600_000)),
                agents: Duration::from_millis(make.random.below(600_000)),
                ..Retention::default()
            },
        }),
        _ => Deed::other(Serve {
            starting: make.random.percent(10),
        }),
    }
}
