//! What is held against a row that a stranger writes: bounds of its columns, what is the hub's, and rules.

use switchboard_core::id::RESERVED;
use switchboard_core::limits::PATH_SEGMENTS_MAX;

use super::{Bound, Column, Owner, Table};

/// What a stranger does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Insert,
    Update,
}

/// A rule that goes beyond a column: what is refused, and why. Conditions are in the words that both dialects have, but
/// for `IS DISTINCT FROM` and names in braces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    /// Of one kind of write, or of all.
    pub of: Option<Deed>,
    pub sentence: &'static str,
    /// What a dialect that can says beside it.
    pub found: &'static str,
    pub refused: &'static str,
}

/// What is held against a row, in the order in which it is looked at.
pub(crate) enum Check {
    /// The value of a column.
    Bound(&'static Column),
    /// The hub's, and not as it is in a new row.
    Born(&'static Column, &'static str),
    /// Not as it was.
    Kept(&'static Column),
    Rule(&'static Rule),
}

/// Of a task that an agent holds.
pub(crate) const HELD: &str = "IN ('claimed', 'in_progress')";

impl Table {
    pub fn checks(&self, deed: Deed) -> Vec<Check> {
        let bounds = || {
            let columns = self.columns.iter();
            let is_bound = move |column: &&Column| match deed {
                Deed::Insert => true,
                Deed::Update => !column.once,
            };
            columns
                .filter(|column| !matches!(column.bound, Bound::Any))
                .filter(is_bound)
                .map(Check::Bound)
        };
        let rules = self
            .rules
            .iter()
            .filter(|rule| rule.of.is_none_or(|of| of == deed))
            .map(Check::Rule);
        match deed {
            Deed::Insert => {
                let born = self
                    .columns
                    .iter()
                    .filter_map(|column| Some(Check::Born(column, column.born?)));
                bounds().chain(rules).chain(born).collect()
            }
            Deed::Update => {
                let kept = self.columns.iter();
                let kept = kept.filter(|column| column.is_kept()).map(Check::Kept);
                kept.chain(rules).chain(bounds()).collect()
            }
        }
    }
}

impl Column {
    /// Whether no stranger changes it once it is there.
    fn is_kept(&self) -> bool {
        self.once || self.owner == Owner::Hub
    }
}

impl Check {
    /// What a stranger reads.
    pub fn sentence(&self, table: &Table) -> String {
        let Table { name, .. } = table;
        match self {
            Check::Bound(column) => {
                let or_null = if column.null { ", or NULL" } else { "" };
                format!(
                    "{name}.{}: {}{or_null}",
                    column.name,
                    column.bound.sentence()
                )
            }
            Check::Born(column, _) => {
                format!("{name}.{} is set by the hub; omit it", column.name)
            }
            Check::Kept(column) => {
                format!("{name}.{} is set by the hub; do not change it", column.name)
            }
            Check::Rule(rule) => rule.sentence.to_owned(),
        }
    }
}

/// A condition with its names replaced that mean the same in both dialects.
pub(crate) fn spelled(refused: &str) -> String {
    refused
        .replace("{held}", HELD)
        .replace("{segments}", &PATH_SEGMENTS_MAX.to_string())
        .replace("{reserved}", &format!("('{}')", RESERVED.join("', '")))
}

const fn of_new(sentence: &'static str, found: &'static str, refused: &'static str) -> Rule {
    Rule {
        of: Some(Deed::Insert),
        sentence,
        found,
        refused,
    }
}

const fn of_changed(sentence: &'static str, found: &'static str, refused: &'static str) -> Rule {
    Rule {
        of: Some(Deed::Update),
        sentence,
        found,
        refused,
    }
}

const fn of_all(sentence: &'static str, found: &'static str, refused: &'static str) -> Rule {
    Rule {
        of: None,
        sentence,
        found,
        refused,
    }
}

pub(super) const TASK_RULES: &[Rule] = &[
    of_new(
        "tasks.status of a new task: one of pending, ready, blocked",
        "NEW.status",
        "NEW.status IS NULL OR NEW.status NOT IN ('pending', 'ready', 'blocked')",
    ),
    of_new(
        "tasks.assigned_agent: a new task must be unassigned; insert it, then claim it",
        "NEW.assigned_agent",
        "NEW.assigned_agent IS NOT NULL",
    ),
    of_new(
        "tasks.dependencies: contains a task that does not exist; insert that one first",
        "NEW.dependencies",
        "EXISTS (SELECT 1 FROM json_each(NEW.dependencies) needs WHERE NOT EXISTS (SELECT 1 FROM tasks known WHERE known.id = needs.value))",
    ),
    of_changed(
        "tasks.status: this change is not allowed; docs/direct-sql.md lists those that are",
        "OLD.status || ' to ' || NEW.status",
        "NEW.status IS DISTINCT FROM OLD.status AND NOT EXISTS (SELECT 1 FROM sb_task_transition WHERE a = OLD.status AND b = NEW.status)",
    ),
    of_changed(
        "tasks.assigned_agent: a claim must name its agent",
        "",
        "NEW.status = 'claimed' AND OLD.status NOT {held} AND NEW.assigned_agent IS NULL",
    ),
    of_changed(
        "tasks.assigned_agent: no such agent is registered; insert it into agents first",
        "NEW.assigned_agent",
        "NEW.status {held} AND OLD.status NOT {held} AND NEW.assigned_agent IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM agents WHERE id = NEW.assigned_agent AND presence <> 'gone')",
    ),
    of_changed(
        "tasks.assigned_agent: this task is for the agents in its audience only",
        "NEW.assigned_agent",
        "NEW.status {held} AND OLD.status NOT {held} AND NEW.assigned_agent IS NOT NULL AND OLD.audience <> '[]'
      AND NOT EXISTS (SELECT 1 FROM json_each(OLD.audience) meant WHERE meant.value = NEW.assigned_agent)",
    ),
    of_changed(
        "tasks.assigned_agent: this agent may not have this task; another has to do it",
        "NEW.assigned_agent",
        "NEW.status {held} AND OLD.status NOT {held} AND NEW.assigned_agent IS NOT NULL AND OLD.barred IS NOT NULL
      AND EXISTS (SELECT 1 FROM json_each(OLD.barred) kept WHERE kept.value = NEW.assigned_agent)",
    ),
    // Without an agent's name these are a person's acts.
    of_changed(
        "tasks.assigned_agent: an agent can claim only what is ready, and finish only what it has claimed",
        "OLD.status || ' to ' || NEW.status",
        "NEW.assigned_agent IS NOT NULL AND NEW.assigned_agent IS DISTINCT FROM OLD.assigned_agent
      AND (OLD.status IN ('blocked', 'pending_retry') AND NEW.status {held}
        OR OLD.status NOT {held} AND NEW.status IN ('completed', 'failed'))",
    ),
    of_changed(
        "tasks.assigned_agent: another agent holds this task",
        "OLD.assigned_agent",
        "OLD.status {held} AND NEW.assigned_agent IS DISTINCT FROM OLD.assigned_agent
      AND (NEW.assigned_agent IS NOT NULL OR NEW.status {held})",
    ),
    of_new(
        "tasks.epoch is set by the hub; omit it",
        "NEW.epoch",
        "NEW.epoch IS DISTINCT FROM 0",
    ),
    of_changed(
        "tasks.epoch is set by the hub; a claim may set epoch = epoch + 1",
        "NEW.epoch",
        "NEW.epoch IS DISTINCT FROM OLD.epoch
      AND NOT (NEW.epoch IS NOT DISTINCT FROM OLD.epoch + 1 AND ({noted} OR NEW.status {held} AND OLD.status NOT {held}))",
    ),
];

pub(super) const AGENT_RULES: &[Rule] = &[of_new(
    "agents.id: this id is reserved",
    "NEW.id",
    "NEW.id IN {reserved}",
)];

pub(super) const MESSAGE_RULES: &[Rule] = &[
    of_new(
        "messages.to_agent: no agent with this id exists; NULL sends to everyone",
        "NEW.to_agent",
        "NEW.to_agent IS NOT NULL AND NOT EXISTS (SELECT 1 FROM agents WHERE id = NEW.to_agent)
      AND NOT EXISTS (SELECT 1 FROM sb_gone_agent WHERE id = NEW.to_agent)",
    ),
    of_new(
        "messages: a new message must be neither delivered nor acknowledged",
        "",
        "NEW.delivered_at IS NOT NULL OR NEW.acknowledged_at IS NOT NULL OR NEW.acknowledged_by IS NOT NULL",
    ),
    of_changed(
        "messages.acknowledged_by: only the recipient may acknowledge a message",
        "OLD.to_agent",
        "OLD.to_agent IS NOT NULL AND NEW.acknowledged_by IS DISTINCT FROM OLD.acknowledged_by
      AND NEW.acknowledged_by IS NOT NULL AND NEW.acknowledged_by <> OLD.to_agent",
    ),
];

pub(super) const LEASE_RULES: &[Rule] = &[
    of_new(
        "leases.file_path: it leads outside the project; use a path inside it",
        "NEW.file_path",
        "{path} IS NULL",
    ),
    of_new(
        "leases.file_path: it has too many segments",
        "NEW.file_path",
        "length({path}) - length(replace({path}, '/', '')) >= {segments}",
    ),
    of_new(
        "leases.expires_at: must be in the future",
        "NEW.expires_at",
        "{over NEW}",
    ),
    of_changed(
        "leases.agent_id: another agent holds this lease, and it has not expired",
        "OLD.agent_id",
        "NEW.agent_id IS DISTINCT FROM OLD.agent_id AND NOT {over OLD}",
    ),
    of_all(
        "leases.agent_id: no such agent is registered; insert it into agents first",
        "NEW.agent_id",
        "NOT EXISTS (SELECT 1 FROM agents WHERE id = NEW.agent_id AND presence <> 'gone')",
    ),
    of_all(
        "leases.task_id: this agent does not hold that task; NULL is allowed",
        "NEW.task_id",
        "NEW.task_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM tasks WHERE id = NEW.task_id AND assigned_agent = NEW.agent_id
      AND status {held})",
    ),
    of_all(
        "leases.file_path: a lease of another agent covers this path",
        "NEW.file_path",
        // What a glob matches is nothing that a database can tell: that waits until it is taken in.
        "NOT {glob} AND EXISTS (SELECT 1 FROM leases held WHERE held.agent_id <> NEW.agent_id AND held.file_path <> NEW.file_path
      AND NOT {over held} AND coalesce(held.path, held.file_path) IN (held.prefix, '.') AND ({path} = '.' OR {covers}))",
    ),
];
