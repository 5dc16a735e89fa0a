//! What a task owes to another node is kept, and its steps are numbered in the outbox.

use switchboard_core::contract::{Contract, Promise};
use switchboard_core::node::Timings;
use switchboard_core::outbox::Outgoing;
use switchboard_core::record::Listed as _;
use switchboard_core::{AgentId, Description, Task, TaskState};

use super::ledger::must;
use super::rows_kept::{ODD, put};
use super::{START, World};
use crate::TaskRef;

pub(super) fn a_task_of_another_node_comes_back_and_its_steps_are_numbered(world: &mut World<'_>) {
    let (mut ledger, _) = world.ledger();
    let contract = Contract {
        here: "here".into(),
        origin: "far".into(),
        event: "evt_1".into(),
        corr_id: "corr".into(),
        requester: ODD.into(),
        response_required: true,
        eta_seconds: Some(60),
        deadline_at: Some(START),
        capability: Some("cap.x".to_owned()),
        schema: Some("{}".into()),
        part: None,
        is_broken: true,
        promise: Some(Promise {
            epoch: 1,
            eta_at: START,
        }),
        timings: Timings::default(),
    };
    let about = Description {
        title: "t".to_owned(),
        ..Description::default()
    };
    let plain = Task::new("t".into(), 1, about, "corr".into(), START);
    let task = Task {
        contract: Some(Box::new(contract)),
        ..plain
    };
    put(&mut ledger, |changes| changes.put(task.clone()));
    let (by, at) = (AgentId::from("ann"), START);
    let (claimed, event) = Task {
        rev: 1,
        ..task.clone()
    }
    .claim(&by, at);
    put(&mut ledger, |changes| {
        changes.task((claimed.clone(), event))
    });
    let done = Task {
        rev: 2,
        state: TaskState::Completed { by, at },
        ..claimed
    };
    put(&mut ledger, |changes| changes.put(done));
    let found = must("read a task", ledger.reader().task(&TaskRef::Number(1)));
    let found = found.expect("the task was saved");
    assert_eq!(found.contract, task.contract, "a contract");
    let head = must("read the head", ledger.reader().head());
    assert_eq!(head.outbox, 3, "three steps were told");
    let told = Outgoing::after(1, 10);
    let told = must("read the outbox", ledger.reader().records(&told));
    let told: Vec<_> = told.iter().filter_map(Outgoing::of).collect();
    let kinds: Vec<_> = told
        .iter()
        .map(|row| (row.seq, row.event.news.kind()))
        .collect();
    assert_eq!(kinds, [(2, "task_complete"), (3, "ack")]);
}
