//! Tasks: made, claimed, reported on, given back.

use serde_json::{Value, json};

use super::{Answered, No, Play, named, or, text};
use crate::scenarios::act::Call;

/// What the page's statement for a new task has places for.
const NEW: &[&str] = &[
    "id",
    "title",
    "description",
    "priority",
    "type",
    "requiredSkills",
    "dependencies",
    "files",
    "estimatedMinutes",
];
const FAILURES: &[&str] = &[
    "task_error",
    "task_timeout",
    "dependency_error",
    "quality_failure",
    "resource_error",
    "agent_crash",
];
const PHASES: &[&str] = &[
    "analyzing",
    "planning",
    "implementing",
    "testing",
    "reviewing",
];

impl Play {
    pub(super) async fn create(&mut self, call: &Call) -> Option<Answered> {
        if !call.given.keys().all(|name| NEW.contains(&name.as_str())) {
            return None;
        }
        Some(self.insert(call).await)
    }

    async fn insert(&mut self, call: &Call) -> Answered {
        let task = named(call, "id");
        let given = json!({
            "task": task,
            "title": named(call, "title"),
            "description": or(call, "description", Value::Null),
            "priority": or(call, "priority", "medium"),
            "type": or(call, "type", "code"),
            "skills": or(call, "requiredSkills", json!([])),
            "dependencies": or(call, "dependencies", json!([])),
            "files": or(call, "files", json!([])),
            "minutes": or(call, "estimatedMinutes", Value::Null),
        });
        self.run("create_task", given).await?;
        Ok(json!({"success": true, "task": self.task(&task).await}))
    }

    /// The page's statement has one filter, for what is not wanted.
    pub(super) async fn claim(&mut self, call: &Call) -> Option<Answered> {
        let filter = call.given.get("filter").and_then(Value::as_object);
        let exclude = match filter {
            Some(filter) => filter
                .get("excludeIds")
                .filter(|_| filter.len() == 1)?
                .clone(),
            None => json!([]),
        };
        if call.given.contains_key("taskId") {
            return None;
        }
        Some(self.take(&named(call, "agentId"), exclude).await)
    }

    async fn take(&mut self, agent: &str, exclude: Value) -> Answered {
        let given = json!({"agent": agent, "exclude": exclude});
        let ran = self.run("claim", given).await?;
        let Some(row) = ran[0].rows.first() else {
            return Err(No::Row);
        };
        let id = row["id"].as_str().expect("a task has an id").to_owned();
        let task = self.task(&id).await;
        assert_eq!(
            (&task["epoch"], &task["assignedAgent"]),
            (&row["epoch"], &agent.into()),
            "the hub knows another claim than its agent"
        );
        self.epochs
            .insert((agent.to_owned(), id), row["epoch"].clone());
        Ok(json!({"success": true, "task": task}))
    }

    /// A report's parameters, with the epoch that it gives or that its agent remembers.
    fn report(&self, call: &Call) -> Value {
        let known = (named(call, "agentId"), named(call, "taskId"));
        let epoch = self.epochs.get(&known).cloned();
        let (agent, task) = known;
        json!({"agent": agent, "task": task, "epoch": or(call, "epoch", epoch)})
    }

    /// Percents are whole numbers here, and notes and files have no column.
    pub(super) async fn progress(&mut self, call: &Call) -> Option<Answered> {
        let progress = &call.given["progress"];
        let percent = progress["percentComplete"].as_f64()?;
        let is_plain = progress["description"] == "" && progress.get("filesModified").is_none();
        let phase = progress["phase"].as_str()?;
        if percent.fract() != 0.0 || !is_plain || !PHASES.contains(&phase) {
            return None;
        }
        Some(self.go_on(call, percent as i64, phase).await)
    }

    async fn go_on(&mut self, call: &Call, percent: i64, phase: &str) -> Answered {
        let mut given = self.report(call);
        given["percent"] = percent.into();
        given["phase"] = phase.into();
        // Both or none: whoever lost its task says nothing of it.
        let ran = self.run("progress", given).await?;
        if ran[0].rows.is_empty() {
            return Err(No::Row);
        }
        Ok(json!({"success": true, "continue": true}))
    }

    /// What was learned has no column.
    pub(super) async fn complete(&mut self, call: &Call) -> Option<Answered> {
        if call.given["result"].get("learnings").is_some() {
            return None;
        }
        Some(self.finish(call).await)
    }

    async fn finish(&mut self, call: &Call) -> Answered {
        let mut given = self.report(call);
        given["result"] = call.given["result"].clone();
        let measured = call.given.get("qualityMetrics");
        if let Some(metrics) = measured {
            let count = |name: &str| metrics[name].as_i64().unwrap_or_default();
            given["snapshot"] = format!("snapshot-{}-{}", given["task"], given["epoch"]).into();
            given["build_success"] = metrics["buildSuccess"].clone();
            given["type_errors"] = count("typeErrors").into();
            given["lint_errors"] = count("lintErrors").into();
            given["lint_warnings"] = 0.into();
            given["tests_passing"] = count("testsPassed").into();
            given["tests_failing"] = (count("testsRan") - count("testsPassed")).into();
            given["coverage"] = metrics.get("testCoverage").cloned().unwrap_or_default();
        }
        let block = if measured.is_some() {
            "complete_measured"
        } else {
            "complete"
        };
        let status = self.end(block, given).await?;
        Ok(json!({"success": true, "status": status}))
    }

    /// Details and advice have no column, and the word for a failure is free.
    pub(super) async fn fail(&mut self, call: &Call) -> Option<Answered> {
        let failure = &call.given["failure"];
        let told = ["details", "suggestedAction"];
        let is_known = FAILURES.contains(&failure["type"].as_str()?);
        if told.iter().any(|name| failure.get(name).is_some()) || !is_known {
            return None;
        }
        Some(self.give_up(call).await)
    }

    async fn give_up(&mut self, call: &Call) -> Answered {
        let mut given = self.report(call);
        let failure = &call.given["failure"];
        given["failure"] = failure["type"].clone();
        given["error"] = failure["message"].clone();
        let block = match failure["recoverable"] == true {
            true => "fail",
            false => "fail_for_good",
        };
        let status = self.end(block, given).await?;
        let mut body = json!({"success": true, "status": status, "willRetry": false});
        if status == "pending_retry" {
            let task = self.task(&named(call, "taskId")).await;
            let at = task["nextRetryAt"].as_str().and_then(|at| at.parse().ok());
            let at: switchboard_wire::IsoTime = at.expect("a retry has its time");
            body["willRetry"] = true.into();
            body["retryAfter"] = (at.0 - self.stage.now().0).into();
        }
        Ok(body)
    }

    /// By its holder; a person has no statement for it.
    pub(super) async fn release(&mut self, call: &Call) -> Option<Answered> {
        text(call, "agentId")?;
        let task = call.id.clone()?;
        let mut report = Call {
            route: call.route,
            given: call.given.clone(),
            ..Call::default()
        };
        report
            .given
            .insert("taskId".to_owned(), task.clone().into());
        Some(self.let_go(&report, &task).await)
    }

    async fn let_go(&mut self, call: &Call, task: &str) -> Answered {
        let given = self.report(call);
        self.end("release_task", given).await?;
        Ok(json!({"success": true, "task": self.task(task).await}))
    }

    /// Runs a block that ends a claim; the status that came of it.
    async fn end(&mut self, block: &str, given: Value) -> Answered {
        let task = given["task"].as_str().unwrap_or_default().to_owned();
        let ran = self.run(block, given).await?;
        if ran.iter().all(|one| one.rows.is_empty()) {
            return Err(No::Row);
        }
        let row = self.row("SELECT status FROM tasks WHERE id = ?", [&task]);
        Ok(row.expect("tasks stay")["status"].clone())
    }
}
