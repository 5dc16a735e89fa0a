//! Rows and refusals as strangers see them.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_core::Description;
use switchboard_core::quality::{Judgement, NextAction};
use switchboard_core::refusal::NotYours;
use switchboard_core::task::Failure;
use switchboard_core::{
    Agent, AgentKind, Capabilities, Command, CommandKind, Doing, FailureKind, Lease, LeasePath,
    Message, Phase, Presence, Priority, Progress, Skills, Task, TaskState, TaskStatus, Timestamp,
    To, verb,
};
use switchboard_wire::jetpack::to_wire;

use crate::golden::read;

const T: Timestamp = Timestamp(1_768_816_800_000);
const T2: Timestamp = Timestamp(1_768_817_100_000);

pub fn value(message: &impl serde::Serialize) -> Value {
    serde_json::to_value(message).expect("printable")
}

pub fn golden(name: &str) -> Value {
    serde_json::from_slice(&read(name)).expect("JSON")
}

fn task(state: TaskState) -> Task {
    let about = Description {
        title: "Fix login".to_owned(),
        description: Some("The button does nothing".to_owned()),
        priority: Priority::High,
        required_skills: Skills::new(["TypeScript"]),
        files: vec!["src/login.ts".to_owned()],
        estimated_minutes: Some(30),
        branch: Some("fix/login".to_owned()),
        ..Description::default()
    };
    Task {
        state,
        dependencies: vec!["task-0".into()],
        retries: 1,
        previous_agents: vec!["agent-002".into()],
        last_failure: Some(Failure {
            kind: FailureKind::QualityFailure,
            message: "tests failed".to_owned(),
        }),
        epoch: 2,
        started_at: Some(T2),
        progress: Some(Progress {
            phase: Phase::Testing,
            percent: 80,
            note: "running".to_owned(),
            files: vec!["src/login.ts".to_owned()],
            told_at: T,
            told_percent: 80,
        }),
        updated_at: T2,
        rev: 1,
        ..Task::new("task-1".into(), 17, about, "task-1".into(), T)
    }
}

#[test]
fn a_claimed_task_is_shown_as_in_the_golden_file() {
    let claimed = verb::Claimed::Task(Box::new(task(TaskState::Claimed {
        by: "agent-001".into(),
        at: T2,
    })));
    assert_eq!(
        value(&to_wire::claimed(&claimed)),
        golden("claim.response.full")
    );
    let none = verb::Claimed::None(verb::NoTask::NoMatchingTasks.into());
    assert_eq!(
        value(&to_wire::claimed(&none)),
        golden("claim.response.required")
    );
    let held = verb::Claimed::None(verb::NoTask::AllTasksClaimed.into());
    assert_eq!(
        value(&to_wire::claimed(&held)),
        golden("claim.response.all_claimed")
    );
}

#[test]
fn each_state_shows_its_own_agent_and_times() {
    let by = || "a".into();
    let cases = [
        (
            TaskState::Waiting,
            "blocked",
            json!([null, null, null, null]),
        ),
        (TaskState::Ready, "ready", json!([null, null, null, null])),
        (
            TaskState::Claimed { by: by(), at: T },
            "claimed",
            json!(["a", T_TEXT, null, null]),
        ),
        (
            TaskState::InProgress { by: by(), at: T },
            "in_progress",
            json!(["a", T_TEXT, null, null]),
        ),
        (
            TaskState::RetryWait { until: T },
            "pending_retry",
            json!([null, null, null, T_TEXT]),
        ),
        (
            TaskState::NeedsPerson { by: by(), at: T },
            "needs_review",
            json!(["a", null, null, null]),
        ),
        (
            TaskState::Completed { by: by(), at: T },
            "completed",
            json!(["a", null, T_TEXT, null]),
        ),
        (
            TaskState::Failed { at: T },
            "failed",
            json!([null, null, null, null]),
        ),
        (
            TaskState::Canceled { at: T },
            "canceled",
            json!([null, null, null, null]),
        ),
    ];
    for (state, status, expected) in cases {
        let shown = value(&to_wire::task(&task(state)));
        assert_eq!(shown["status"], status);
        let members = ["assignedAgent", "claimedAt", "completedAt", "nextRetryAt"]
            .map(|name| shown[name].clone());
        assert_eq!(json!(members), expected, "{status}");
    }
}

const T_TEXT: &str = "2026-01-19T10:00:00.000Z";

#[test]
fn a_result_is_shown_as_it_was_stored_and_text_by_hand_as_text() {
    let mut row = task(TaskState::Ready);
    row.worked_ms = Some(60_001);
    for (stored, shown) in [
        (r#"{"a": 1.50}"#, r#""result":{"a": 1.50}"#),
        ("not json", r#""result":"not json""#),
    ] {
        row.result = Some(stored.into());
        let printed = serde_json::to_string(&to_wire::task(&row)).expect("printable");
        assert!(printed.contains(shown), "{printed}");
        assert!(printed.contains(r#""actualMinutes":2"#), "{printed}");
    }
}

fn agent() -> Agent {
    Agent {
        id: "agent-001".into(),
        name: "Builder".to_owned(),
        kind: AgentKind::ClaudeCode,
        presence: Presence::Live(Doing::Busy),
        skills: Skills::new(["react"]),
        capabilities: Capabilities {
            max_task_minutes: 60,
            can_run_tests: true,
            can_run_build: true,
            can_access_browser: false,
        },
        machine: None,
        registered_at: T,
        seen_at: T2,
        heartbeats: 12,
        last_active_at: T2,
        holds: vec![],
        current: None,
        completed: 4,
        failed: 1,
        runtime_ms: 95 * 60_000 + 59_999,
        metrics: None,
        commands: vec![],
        key_generation: 0,
        inbox: 0,
        doors: vec![switchboard_core::Door::Jetpack],
        silent_after: Some(switchboard_core::limits::SILENT_AFTER),
        stream: switchboard_core::Stream::default(),
        rev: 1,
    }
}

#[test]
fn an_agent_shows_its_state_and_counters() {
    let shown = value(&to_wire::agent(&agent()));
    assert_eq!(shown["status"], "busy");
    assert_eq!(shown["totalRuntimeMinutes"], 95);
    assert_eq!(shown["lastHeartbeat"], "2026-01-19T10:05:00.000Z");
    for (presence, status) in [
        (Presence::Live(Doing::Idle), "idle"),
        (Presence::Live(Doing::Error), "error"),
        (Presence::Live(Doing::Stopping), "shutting_down"),
        (Presence::Silent { since: T }, "offline"),
        (Presence::Gone { at: T }, "offline"),
    ] {
        let row = Agent {
            presence,
            ..agent()
        };
        assert_eq!(value(&to_wire::agent(&row))["status"], status);
        assert_eq!(row.status(), status);
    }
}

#[test]
fn heartbeats_carry_commands_or_no_such_member() {
    let command = |id: &str, kind| Command {
        id: id.into(),
        kind,
        at: T,
        handed: false,
    };
    let reply = verb::HeartbeatTaken {
        at: T,
        commands: vec![
            command(
                "cmd-1",
                CommandKind::Shutdown {
                    reason: "maintenance".to_owned(),
                },
            ),
            command(
                "cmd-2",
                CommandKind::ReleaseTask {
                    task: "task-1".into(),
                    reason: "reassigned".to_owned(),
                },
            ),
            command("cmd-3", CommandKind::Ping),
        ],
    };
    assert_eq!(
        value(&to_wire::heartbeat(&reply)),
        golden("heartbeat.response.full")
    );
    let quiet = verb::HeartbeatTaken {
        at: T,
        commands: vec![],
    };
    assert_eq!(
        value(&to_wire::heartbeat(&quiet)),
        golden("heartbeat.response.required")
    );
}

#[test]
fn reports_are_answered_as_in_the_golden_files() {
    let abort = verb::Progressed::Abort(NotYours::Reassigned { to: None });
    assert_eq!(
        value(&to_wire::progressed(&abort)),
        golden("progress.response.full")
    );
    assert_eq!(
        value(&to_wire::progressed(&verb::Progressed::Continue)),
        golden("progress.response.required")
    );
    let judgement = Judgement {
        passed: true,
        regressions: vec![],
        next: NextAction::Proceed,
        why: None,
    };
    let done = verb::Completed {
        judgement,
        status: TaskStatus::Completed,
    };
    assert_eq!(
        value(&to_wire::completed(&done)),
        golden("complete.response.required")
    );
    let later = verb::Failed {
        status: TaskStatus::RetryWait,
        retry_after: Some(Duration::from_secs(60)),
    };
    assert_eq!(
        value(&to_wire::failed(&later)),
        golden("fail.response.full")
    );
    let never = verb::Failed {
        status: TaskStatus::Failed,
        retry_after: None,
    };
    assert_eq!(
        value(&to_wire::failed(&never)),
        golden("fail.response.required")
    );
}

#[test]
fn leases_and_messages_are_answered_as_in_the_golden_files() {
    let lease = |agent: &str| Lease {
        path: LeasePath::stored("src/login.ts"),
        spelled: None,
        agent: agent.into(),
        task: Some("task-1".into()),
        acquired_at: T,
        expires_at: T2,
        renewals: 1,
        fencing: 7,
        rev: 1,
    };
    let granted = verb::LeaseAnswer::Granted(lease("agent-001"));
    assert_eq!(
        value(&to_wire::lease_answer(&granted)),
        golden("acquire_lease.response.full")
    );
    let held = verb::LeaseAnswer::Held(lease("agent-002"));
    assert_eq!(
        value(&to_wire::lease_answer(&held)),
        golden("acquire_lease.response.held")
    );
    assert_eq!(
        value(&to_wire::lease(&lease("agent-001"))),
        golden("leases.response.full")["leases"][0]
    );
    let free = to_wire::lease_state(&verb::LeaseState::Free);
    assert_eq!(value(&free), golden("check_lease.response.required"));
    let message = Message {
        id: "msg-1".into(),
        number: 1,
        from: "agent-001".into(),
        to: To::One("agent-002".into()),
        kind: "task.handoff".to_owned(),
        payload: r#"{"taskId":"task-1"}"#.into(),
        ack_required: true,
        corr_id: "task-1".into(),
        handoff: None,
        given: None,
        created_at: T,
        expires_at: Some(Timestamp(T.0 + 3_600_000)),
        acknowledged: None,
        delivered_at: None,
        afar: None,
        rev: 1,
    };
    assert_eq!(
        value(&to_wire::message(&message)),
        golden("receive_messages.response.full")["messages"][0]
    );
}
