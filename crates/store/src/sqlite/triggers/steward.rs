//! What only a steward may, refused to whoever is none.

use switchboard_core::STEWARD;
use switchboard_core::verb::{TRANSITIONS, is_stewards};

use super::guard::refuse;
use super::{IS_STEWARD, Trigger, kept};
use crate::table::{HELD, TASKS};

pub(super) fn triggers() -> Vec<Trigger> {
    let trigger = |name, on: &str, sentence: &str, condition: &str| Trigger {
        name,
        on: on.to_owned(),
        body: vec![refuse(
            &format!("{sentence}; this requires a token of scope sql:steward"),
            &format!("NOT {IS_STEWARD}() AND ({condition})"),
        )],
    };
    // What a task asks for.
    let asked: Vec<&str> = TASKS.words().collect();
    let baseline = "quality_baseline: only a steward may set it";
    vec![
        trigger(
            "sb_steward_status",
            "BEFORE UPDATE OF status ON tasks",
            "tasks.status: only a steward may cancel a task, decide a review, retry a task, or act on one in no agent's name",
            &rulings(),
        ),
        trigger(
            "sb_steward_describes",
            &format!("BEFORE UPDATE OF {} ON tasks", asked.join(", ")),
            &format!("tasks: only a steward may change {}", asked.join(", ")),
            &kept(&asked),
        ),
        trigger(
            "sb_steward_sends",
            "BEFORE INSERT ON messages",
            "messages.from_agent: the sender must be a registered agent",
            "NOT EXISTS (SELECT 1 FROM agents WHERE id = NEW.from_agent AND presence <> 'gone')",
        ),
        // Else what it has sent would be left without its sender.
        trigger(
            "sb_steward_newcomer",
            "BEFORE DELETE ON agents",
            "agents: a new agent can be deregistered only after the hub has adopted it",
            "OLD.rev = 0",
        ),
        trigger(
            "sb_steward_baseline_insert",
            "BEFORE INSERT ON quality_baseline",
            baseline,
            "1",
        ),
        trigger(
            "sb_steward_baseline_update",
            "BEFORE UPDATE ON quality_baseline",
            baseline,
            "1",
        ),
        trigger(
            "sb_steward_baseline_delete",
            "BEFORE DELETE ON quality_baseline",
            baseline,
            "1",
        ),
    ]
}

fn rulings() -> String {
    let rulings = TRANSITIONS.iter().filter(|(a, b)| is_stewards(a, b));
    let pairs: Vec<String> = rulings.map(|(a, b)| format!("'{a} {b}'")).collect();
    format!(
        "OLD.status || ' ' || NEW.status IN ({}) OR NEW.status = 'in_progress' AND OLD.status NOT {HELD} AND NEW.assigned_agent IS NULL
    OR OLD.status {HELD} AND OLD.assigned_agent = '{STEWARD}'",
        pairs.join(", ")
    )
}
