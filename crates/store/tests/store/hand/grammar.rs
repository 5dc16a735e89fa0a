//! Random statements of a client, in the words that the public tables know and in some that they do not.

use switchboard_store::conformance::{Everything, Random};

use super::Words;

/// Draws statements that often make sense and sometimes do not.
pub struct Maker<'a> {
    pub random: &'a mut Random,
    pub seen: &'a Everything,
    pub words: &'a Words,
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
/// What no column takes, or should not.
const ODD: &[&str] = &[
    "NULL",
    "''",
    "'[]'",
    "'{}'",
    "'[1]'",
    "'[\"\\ud800\"]'",
    "'ready'",
    "'2026-02-30 10:00:00'",
    "'2026-01-31T24:00:00Z'",
    "'2026-01-31T10:00:00   '",
    "'9999-12-31T23:59:59.999Z'",
    "'9999-12-31T23:59:59-10:00'",
    "'0000-01-01 00:00:00'",
    "'ann'",
    "'é'",
];
const TIMES: &[&str] = &["CURRENT_TIMESTAMP", "'2026-01-31T10:00:00+02:00'"];

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
        self.one(&[ODD, self.words.odd].concat())
    }

    fn time(&mut self) -> String {
        self.value(&[TIMES, self.words.times].concat())
    }

    /// A new row, and what becomes of it if its key is taken.
    fn insert(&mut self, row: &str) -> String {
        let (before, after) = *self.random.pick(self.words.clashes).unwrap();
        format!("INSERT {before} INTO {row} {after}")
    }

    fn skills(&mut self) -> String {
        self.value(&["'[]'", "'[]'", "'[\"rust\"]'", "'[\"sql\", \"Rust\"]'"])
    }

    pub fn statement(&mut self) -> String {
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
        match self.random.below(3) {
            0 => self.insert(&format!("tasks(id, title) VALUES ({id}, {title})")),
            1 => {
                let (skills, status) = (
                    self.skills(),
                    self.value(&["'pending'", "'ready'", "'blocked'"]),
                );
                let (priority, kind) = (
                    self.value(&["'low'", "'high'"]),
                    self.value(&["'code'", "'test'"]),
                );
                self.insert(&format!("tasks(id, title, required_skills, status, priority, type) VALUES ({id}, {title}, {skills}, {status}, {priority}, {kind})"))
            }
            _ => {
                let needs = self.task();
                let (needs, then) = (
                    (self.words.json_array)(&needs),
                    self.value(&["'block'", "'fail'"]),
                );
                let retries = self.value(&["0", "2"]);
                self.insert(&format!("tasks(id, title, dependencies, on_dependency_failure, max_retries, description, status)
                 VALUES ({id}, {title}, {needs}, {then}, {retries}, 'why', 'ready')"))
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
        let or = self.one(self.words.update_clashes);
        format!("UPDATE {or} tasks SET {column} = {value} WHERE id = {task}")
    }

    fn agents(&mut self) -> String {
        let (id, at) = (self.agent(), self.time());
        match self.random.below(9) {
            0 | 1 => {
                let (skills, machine, pid) = (
                    self.skills(),
                    self.value(&["NULL", "'box'"]),
                    self.value(&["1", "2", "NULL"]),
                );
                let status = self.value(&["'idle'", "'idle'", "'busy'", "'offline'"]);
                self.insert(&format!("agents(id, name, skills, machine_id, pid, status) VALUES ({id}, {id}, {skills}, {machine}, {pid}, {status})"))
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
                self.insert(&format!("messages(id, type, from_agent, to_agent, payload, ack_required) VALUES ({id}, {kind}, {from}, {to}, {payload}, 1)"))
            }
            3 => {
                let id = format!("'w{}'", self.random.below(12));
                let task = self.task();
                let payload = (self.words.json_object)("taskId", &task);
                format!(
                    "INSERT INTO messages(id, type, from_agent, to_agent, payload, expires_at) VALUES ({id}, 'task.handoff', {from}, {to}, {payload}, {at})"
                )
            }
            4 => {
                let id = format!("'w{}'", self.random.below(12));
                let payload = (self.words.json_object)("filePath", "'src/a.rs'");
                format!(
                    "INSERT INTO messages(id, type, from_agent, payload) VALUES ({id}, 'file.lock_request', {from}, {payload})"
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
                let path = self.value(&[&path]);
                self.insert(&format!("leases(file_path, agent_id, task_id, expires_at) VALUES ({path}, {agent}, {task}, {at})"))
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
                (self.words.replace)(
                    &format!(
                        "quality_snapshots(id, task_id, agent_id, build_success, type_errors) VALUES ({id}, {task}, {agent}, 1, {errors})"
                    ),
                    &["type_errors"],
                )
            }
            1 => format!(
                "UPDATE tasks SET status = 'completed', quality_snapshot_id = 'q{}' WHERE id = {task}",
                self.random.below(6)
            ),
            _ => {
                let errors = self.value(&["0", "3"]);
                (self.words.replace)(
                    &format!(
                        "quality_baseline(id, build_success, type_errors, set_by) VALUES (1, 1, {errors}, {agent})"
                    ),
                    &["type_errors", "set_by"],
                )
            }
        }
    }
}
