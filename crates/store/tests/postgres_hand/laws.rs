//! Any mix of hand writes and verbs leaves a ledger that counts right.

use std::sync::OnceLock;
use std::time::Duration;

use proptest::prelude::*;
use switchboard_store::conformance::{AnyVerb, Deed, Everything, Random};

use crate::desk::{Desk, Room, said};
use crate::recount::recount;

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, max_shrink_iters: 60, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_written_by_hand_the_ledger_counts_right(
        choices in prop::collection::vec(any::<u64>(), 1..120),
        page in 1..5_usize,
    ) {
        if let Some(room) = room() {
            history(&mut room.desk(), &choices, page);
        }
    }
}

fn room() -> Option<&'static Room> {
    static ROOM: OnceLock<Option<Room>> = OnceLock::new();
    ROOM.get_or_init(|| Room::new("laws of hand writes"))
        .as_ref()
}

fn history(desk: &mut Desk, choices: &[u64], page: usize) {
    let mut told: Vec<String> = Vec::new();
    let mut seen = desk.everything();
    for choice in choices {
        let mut random = Random::new(*choice);
        match random.below(10) {
            0..=5 => {
                let written = write(desk, &mut random, &seen);
                told.extend(written);
                continue;
            }
            6 => told.push(format!("{:?}", desk.run(page, &[]))),
            _ => told.push(verb(desk, random.draw(), &seen, page)),
        }
        let last: Vec<&str> = told
            .iter()
            .rev()
            .take(40)
            .rev()
            .map(String::as_str)
            .collect();
        seen = recount(desk, &last.join("\n"));
    }
    desk.run(page, &[]);
    recount(desk, &told.join("\n"));
}

fn verb(desk: &mut Desk, choice: u64, seen: &Everything, page: usize) -> String {
    match Deed::choose(choice, seen) {
        Deed::Wait(span) => {
            desk.clock.advance(span);
            desk.run(page, &[]);
            format!("wait {span:?}")
        }
        Deed::Sweep(_) => format!("{:?}", desk.run(page, &[])),
        Deed::Claim(claim) => format!("{claim:?}: {:?}", desk.run(page, &[&claim as &dyn AnyVerb])),
        Deed::Other(verb) => format!("{verb:?}: {:?}", desk.run(page, &[&*verb])),
    }
}

/// A few statements by hand, in one transaction or in none.
fn write(desk: &Desk, random: &mut Random, seen: &Everything) -> Vec<String> {
    let mut made = Maker { random, seen };
    let together = made.random.percent(40);
    let undone = together && made.random.percent(10);
    let mut told = Vec::new();
    if together {
        desk.hand.sql("BEGIN");
    }
    for _ in 0..=made.random.below(4) {
        let sql = made.statement();
        if together {
            desk.hand.sql("SAVEPOINT one");
        }
        let outcome = desk.hand.try_sql(&sql);
        if let Err(error) = &outcome {
            let code = error.code().map_or("", |code| code.code());
            // Conditions, and values that the columns' types do not take.
            assert!(
                code.starts_with("23") || code.starts_with("22") || code == "42804",
                "{}: {sql}",
                said(error)
            );
            if together {
                desk.hand.sql("ROLLBACK TO one");
            }
        }
        told.push(format!(
            "{sql}; {:?}",
            outcome.map_err(|error| said(&error))
        ));
    }
    if together {
        let end = if undone { "ROLLBACK" } else { "COMMIT" };
        desk.hand.sql(end);
        told.push(end.to_owned());
    }
    told
}

/// Draws statements that often make sense and sometimes do not.
struct Maker<'a> {
    random: &'a mut Random,
    seen: &'a Everything,
}

const AGENTS: &[&str] = &["ann", "bob", "cas", "dee", "gus", "hal"];
const STATUSES: &[&str] = &[
    "pending",
    "ready",
    "claimed",
    "in_progress",
    "completed",
    "failed",
    "pending_retry",
    "blocked",
    "needs_review",
    "canceled",
];
const PATHS: &[&str] = &[
    "src",
    "src/a.rs",
    "src/b.rs",
    "docs",
    "a/[id]/p.ts",
    "src/*.rs",
    ".",
];

impl Maker<'_> {
    fn one(&mut self, of: &[&str]) -> String {
        (*self.random.pick(of).unwrap()).to_owned()
    }

    fn agent(&mut self) -> String {
        let id = self.one(AGENTS);
        format!("'{id}'")
    }

    fn task(&mut self) -> String {
        let known = self
            .random
            .pick(&self.seen.tasks)
            .map(|task| task.id.to_string());
        match known {
            Some(id) if self.random.percent(60) => format!("'{id}'"),
            _ => format!("'h{}'", self.random.below(12)),
        }
    }

    fn message(&mut self) -> String {
        let known = self
            .random
            .pick(&self.seen.messages)
            .map(|message| message.id.to_string());
        match known {
            Some(id) if self.random.percent(50) => format!("'{id}'"),
            _ => format!("'w{}'", self.random.below(12)),
        }
    }

    /// Mostly what fits; at times what no column takes, or should not.
    fn value(&mut self, fits: &[&str]) -> String {
        if self.random.percent(92) {
            return self.one(fits);
        }
        self.one(&[
            "NULL",
            "'-1'",
            "'0'",
            "'1'",
            "'9223372036854775807'",
            "'1e300'",
            "''",
            "'[]'",
            "'{}'",
            "'[1]'",
            "'[\"\\ud800\"]'",
            "chr(26) || '0'",
            "'a' || chr(1) || 'b'",
            "'ready'",
            "'2026-02-30 10:00:00'",
            "'2026-01-31T24:00:00Z'",
            "'2026-01-31T10:00:00   '",
            "'9999-12-31T23:59:59.999Z'",
            "'9999-12-31T23:59:59-10:00'",
            "'0000-01-01 00:00:00'",
            "'infinity'",
            "'[\"' || repeat('x', 70) || '\"]'",
            "repeat('x', 300000)",
            "'ann'",
            "'é'",
        ])
    }

    fn time(&mut self) -> String {
        self.value(&[
            "CURRENT_TIMESTAMP",
            "sb_now()",
            "now() + interval '10 minutes'",
            "(now() + interval '2 hours') AT TIME ZONE 'UTC'",
            "now() - interval '1 day'",
            "'2026-01-31T10:00:00+02:00'",
        ])
    }

    fn skills(&mut self) -> String {
        self.value(&["'[]'", "'[]'", "'[\"rust\"]'", "'[\"sql\", \"Rust\"]'"])
    }

    fn statement(&mut self) -> String {
        match self.random.below(100) {
            0..=13 => self.new_task(),
            14..=27 => self.claim(),
            28..=43 => self.move_task(),
            44..=49 => self.change_task(),
            50..=65 => self.agents(),
            66..=81 => self.messages(),
            82..=95 => self.leases(),
            _ => self.quality(),
        }
    }

    fn new_task(&mut self) -> String {
        let (id, title) = (
            format!("'h{}'", self.random.below(12)),
            self.value(&["'a task'"]),
        );
        let or = self.one(&["", "", "ON CONFLICT DO NOTHING"]);
        match self.random.below(3) {
            0 => format!("INSERT INTO tasks(id, title) VALUES ({id}, {title}) {or}"),
            1 => {
                let (skills, status) = (
                    self.skills(),
                    self.value(&["'pending'", "'ready'", "'blocked'"]),
                );
                let (priority, kind) = (
                    self.value(&["'low'", "'high'"]),
                    self.value(&["'code'", "'test'"]),
                );
                format!(
                    "INSERT INTO tasks(id, title, required_skills, status, priority, type) VALUES ({id}, {title}, {skills}, {status}, {priority}, {kind}) {or}"
                )
            }
            _ => {
                let (needs, then) = (self.task(), self.value(&["'block'", "'fail'"]));
                let retries = self.value(&["0", "2"]);
                format!("INSERT INTO tasks(id, title, dependencies, on_dependency_failure, max_retries, description, status)
                 VALUES ({id}, {title}, jsonb_build_array({needs}::text)::text, {then}, {retries}, 'why', 'ready') {or}")
            }
        }
    }

    fn claim(&mut self) -> String {
        let (agent, at) = (self.agent(), self.time());
        let which = match self.random.below(3) {
            0 => "(SELECT id FROM tasks WHERE status = 'ready' ORDER BY priority_order, created_at LIMIT 1)".to_owned(),
            1 => "(SELECT id FROM tasks WHERE status IN ('ready', 'pending') ORDER BY number LIMIT 1)".to_owned(),
            _ => self.task(),
        };
        let epoch = self.one(&["", ", epoch = epoch + 1"]);
        let word = self.one(&["claimed", "claimed", "in_progress"]);
        format!(
            "UPDATE tasks SET status = '{word}', assigned_agent = {agent}, claimed_at = {at}{epoch} WHERE id = {which}"
        )
    }

    fn move_task(&mut self) -> String {
        let held = "(SELECT id FROM tasks WHERE status IN ('claimed', 'in_progress') ORDER BY claimed_at, id LIMIT 1)";
        let task = if self.random.percent(60) {
            held.to_owned()
        } else {
            self.task()
        };
        let status = self.one(STATUSES);
        match self.random.below(6) {
            0 => format!("UPDATE tasks SET status = '{status}' WHERE id = {task}"),
            1 => {
                let result = self.value(&["'{\"ok\":1}'", "'done'"]);
                let at = self.time();
                format!(
                    "UPDATE tasks SET status = 'completed', result = {result}, completed_at = {at} WHERE id = {task}"
                )
            }
            2 => {
                let (word, kind) = (
                    self.one(&["failed", "pending_retry"]),
                    self.value(&["'task_error'", "'odd'"]),
                );
                format!("UPDATE tasks SET status = '{word}', last_error = 'it broke', failure_type = {kind}, retry_count = retry_count + 1,
                 assigned_agent = NULL WHERE id = {task}")
            }
            3 => format!(
                "UPDATE tasks SET status = '{status}', assigned_agent = NULL, claimed_at = NULL WHERE id = {task}"
            ),
            4 => format!("DELETE FROM tasks WHERE id = {task}"),
            _ => format!(
                "UPDATE tasks SET status = '{status}' WHERE status = '{}'",
                self.one(STATUSES)
            ),
        }
    }

    fn change_task(&mut self) -> String {
        let task = self.task();
        let (column, value) = match self.random.below(10) {
            0 => ("priority", self.value(&["'low'", "'critical'"])),
            1 => ("required_skills", self.skills()),
            2 => ("title", self.value(&["'another title'"])),
            3 => ("description", self.value(&["'more'", "NULL"])),
            4 => ("updated_at", self.time()),
            5 => ("epoch", self.value(&["epoch + 1"])),
            6 => ("lane", self.value(&["NULL", "7"])),
            7 => ("number", self.value(&["-7", "7"])),
            8 => ("retry_count", self.value(&["0", "5"])),
            _ => ("previous_agents", self.value(&["'[\"ann\"]'"])),
        };
        format!("UPDATE tasks SET {column} = {value} WHERE id = {task}")
    }

    fn agents(&mut self) -> String {
        let (id, at) = (self.agent(), self.time());
        match self.random.below(9) {
            0 | 1 => {
                let or = self.one(&["", "", "ON CONFLICT DO NOTHING"]);
                let (skills, machine, pid) = (
                    self.skills(),
                    self.value(&["NULL", "'box'"]),
                    self.value(&["1", "2", "NULL"]),
                );
                let status = self.value(&["'idle'", "'idle'", "'busy'", "'offline'"]);
                format!(
                    "INSERT INTO agents(id, name, skills, machine_id, pid, status) VALUES ({id}, {id}, {skills}, {machine}, {pid}, {status}) {or}"
                )
            }
            2 => format!(
                "INSERT INTO agents(id, name) VALUES ({id}, {id}) ON CONFLICT(id) DO UPDATE SET last_heartbeat = {at}, status = 'idle'"
            ),
            3 => format!(
                "UPDATE agents SET last_heartbeat = {at}, heartbeat_count = heartbeat_count + 1 WHERE id = {id}"
            ),
            4 => {
                let (status, task) = (
                    self.value(&[
                        "'busy'",
                        "'idle'",
                        "'error'",
                        "'offline'",
                        "'shutting_down'",
                    ]),
                    self.task(),
                );
                format!(
                    "UPDATE agents SET status = {status}, current_task_id = {task}, current_task_progress = 40, current_task_phase = 'testing' WHERE id = {id}"
                )
            }
            5 => "UPDATE agents SET status = 'offline'".to_owned(),
            6 => format!(
                "UPDATE agents SET skills = {} WHERE id = {id}",
                self.skills()
            ),
            7 => format!(
                "UPDATE agents SET tasks_completed = tasks_completed + 1, last_active_at = {at} WHERE id = {id}"
            ),
            _ => format!("DELETE FROM agents WHERE id = {id}"),
        }
    }

    fn messages(&mut self) -> String {
        let (from, to, at) = (self.agent(), self.agent(), self.time());
        match self.random.below(10) {
            0..=2 => {
                let (id, to) = (
                    format!("'w{}'", self.random.below(12)),
                    if self.random.percent(40) {
                        "NULL".to_owned()
                    } else {
                        to
                    },
                );
                let (kind, payload) = (
                    self.value(&["'custom'", "'info.discovery'"]),
                    self.value(&["'{}'", "'plain words'", "NULL"]),
                );
                let or = self.one(&["", "", "ON CONFLICT DO NOTHING"]);
                format!(
                    "INSERT INTO messages(id, type, from_agent, to_agent, payload, ack_required) VALUES ({id}, {kind}, {from}, {to}, {payload}, 1) {or}"
                )
            }
            3 => {
                let id = format!("'w{}'", self.random.below(12));
                let task = self.task();
                format!(
                    "INSERT INTO messages(id, type, from_agent, to_agent, payload, expires_at) VALUES ({id}, 'task.handoff', {from}, {to}, jsonb_build_object('taskId', {task}::text)::text, {at})"
                )
            }
            4 => {
                let id = format!("'w{}'", self.random.below(12));
                format!(
                    "INSERT INTO messages(id, type, from_agent, payload) VALUES ({id}, 'file.lock_request', {from}, jsonb_build_object('filePath', 'src/a.rs')::text)"
                )
            }
            5 | 6 => format!(
                "UPDATE messages SET delivered_at = {at} WHERE to_agent = {to} AND delivered_at IS NULL"
            ),
            7 => format!(
                "UPDATE messages SET acknowledged_at = {at}, acknowledged_by = {to} WHERE to_agent = {to} AND acknowledged_at IS NULL"
            ),
            8 => format!(
                "UPDATE messages SET delivered_at = NULL, acknowledged_at = NULL WHERE id = {}",
                self.message()
            ),
            _ => format!("DELETE FROM messages WHERE id = {}", self.message()),
        }
    }

    fn leases(&mut self) -> String {
        let (path, agent, at) = (format!("'{}'", self.one(PATHS)), self.agent(), self.time());
        let task = if self.random.percent(30) {
            self.task()
        } else {
            "NULL".to_owned()
        };
        match self.random.below(6) {
            0 | 1 => {
                let or = self.one(&["", "", "ON CONFLICT DO NOTHING"]);
                let path = self.value(&[&path]);
                format!("INSERT INTO leases(file_path, agent_id, task_id, expires_at) VALUES ({path}, {agent}, {task}, {at}) {or}")
            }
            2 => format!("INSERT INTO leases(file_path, agent_id, expires_at) VALUES ({path}, {agent}, {at}) ON CONFLICT(file_path)
             DO UPDATE SET agent_id = excluded.agent_id, expires_at = excluded.expires_at, renewed_count = leases.renewed_count + 1"),
            3 => format!("UPDATE leases SET expires_at = {at}, renewed_count = renewed_count + 1 WHERE agent_id = {agent}"),
            4 => format!("UPDATE leases SET task_id = {task}, agent_id = {agent} WHERE file_path = {path}"),
            _ => format!("DELETE FROM leases WHERE agent_id = {agent} OR file_path = {path}"),
        }
    }

    fn quality(&mut self) -> String {
        let (task, agent) = (self.task(), self.agent());
        match self.random.below(3) {
            0 => {
                let (id, errors) = (
                    format!("'q{}'", self.random.below(6)),
                    self.value(&["0", "9"]),
                );
                let task = self.value(&[&task]);
                format!(
                    "INSERT INTO quality_snapshots(id, task_id, agent_id, build_success, type_errors) VALUES ({id}, {task}, {agent}, 1, {errors}) ON CONFLICT (id) DO UPDATE SET type_errors = excluded.type_errors"
                )
            }
            1 => format!(
                "UPDATE tasks SET status = 'completed', quality_snapshot_id = 'q{}' WHERE id = {task}",
                self.random.below(6)
            ),
            _ => {
                let errors = self.value(&["0", "3"]);
                format!(
                    "INSERT INTO quality_baseline(id, build_success, type_errors, set_by) VALUES (1, 1, {errors}, {agent}) ON CONFLICT (id) DO UPDATE SET type_errors = excluded.type_errors, set_by = excluded.set_by"
                )
            }
        }
    }
}

/// Waiting is the hub's: what a hand wrote is judged by the hub's clock when it is taken in.
#[test]
fn a_long_pause_between_a_write_and_its_adoption_is_no_harm() {
    let Some(room) = room() else { return };
    let mut desk = room.desk();
    desk.hand.sql(
        "INSERT INTO agents(id, name) VALUES ('ann', 'ann'); INSERT INTO tasks(id, title) VALUES ('t', 't');
         INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('src', 'ann', now() + interval '1 minute');",
    );
    desk.clock.advance(Duration::from_secs(86_400));
    desk.run(1, &[]);
    recount(&desk, "a day");
}
