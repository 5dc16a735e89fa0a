//! Jobs on the command line, with the mock agent at work: made, run, judged, decided on.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use switchboard_tests::{Project, switchboard, until};

const AGENTS: &str =
    "[logist.agents.worker]\npreset = \"mock\"\n[logist.agents.supervisor]\npreset = \"mock\"\n";

struct Jobs {
    project: Project,
}

impl Jobs {
    fn new() -> Jobs {
        let project = Project::new();
        fs::write(project.root().join("switchboard.toml"), AGENTS).expect("it is ours");
        Jobs { project }
    }

    fn spec(&self, name: &str, spec: &Value) {
        let file = self.project.root().join(name);
        fs::write(file, spec.to_string()).expect("it is ours");
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(switchboard());
        command
            .args(line.split(' '))
            .current_dir(self.project.root())
            .env_remove("SWITCHBOARD_URL")
            .env_remove("SWITCHBOARD_TOKEN")
            .env_remove("LOGIST_JOB_ID")
            .env("NO_COLOR", "1")
            .stdin(Stdio::null());
        command
    }

    fn cli(&self, line: &str) -> Output {
        self.command(line).output().expect("it starts")
    }

    /// What a command says that ends with this exit code, on both.
    #[track_caller]
    fn says(&self, code: i32, line: &str) -> String {
        let ended = self.cli(line);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = text(&ended.stdout) + &text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(code), "{line}: {said}");
        said
    }

    #[track_caller]
    fn json(&self, line: &str) -> Value {
        let ended = self.cli(&format!("{line} --json"));
        let text = String::from_utf8_lossy(&ended.stdout);
        let complaint = String::from_utf8_lossy(&ended.stderr);
        serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{line}: {error}: {text}{complaint}"))
    }
}

#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

#[test]
fn a_job_is_run_reviewed_and_approved_with_a_retry_and_a_cost_halt_on_the_way() {
    let jobs = Jobs::new();
    let phases = json!([
        { "name": "build", "worker_instructions": "mock: retry,success" },
        { "name": "polish", "worker_instructions": "mock: expensive" },
    ]);
    jobs.spec(
        "tour.json",
        &json!({ "job_spec": { "job_id": "tour", "phases": phases } }),
    );
    let hub = jobs.project.start();
    let made = jobs.says(0, "job create tour.json");
    has(
        &made,
        &[
            "job tour is DRAFT",
            "switchboard job run tour",
            "its files are in ",
        ],
    );
    let told = jobs.says(1, "job run tour");
    has(
        &told,
        &[
            "build: Worker RETRY → PENDING ($0.01,",
            "build: Worker COMPLETED → REVIEW_REQUIRED",
            "build: Supervisor COMPLETED → PENDING",
            "polish: Worker COMPLETED → HALTED_COST ($25.00,",
            "job tour is HALTED_COST; go on with 'switchboard job resubmit tour --cost CENTS'",
        ],
    );
    // Both limits are in cents: what was spent is above the first one.
    let low = jobs.says(1, "job resubmit tour --cost 2000");
    has(&low, &["limit of cost is used up"]);
    jobs.says(0, "job resubmit tour --cost 5000 --guidance cheaper");
    let told = jobs.says(0, "job run tour");
    has(
        &told,
        &[
            "polish: Supervisor COMPLETED → APPROVAL_REQUIRED",
            "switchboard job approve tour",
        ],
    );
    has(
        &jobs.says(0, "inbox --steward"),
        &["job", "tour", "APPROVAL_REQUIRED"],
    );
    has(
        &jobs.says(0, "job approve --reason fine"),
        &["job tour is SUCCESS"],
    );
    has(
        &jobs.says(1, "job run tour"),
        &["already in terminal state SUCCESS"],
    );
    has(&jobs.says(0, "inbox --steward"), &["nothing waits for you"]);

    let job = jobs.json("job status tour");
    assert_eq!(job["status"], "SUCCESS");
    assert_eq!(
        job["metrics"]["cumulative_cost"], 2504,
        "four runs of a cent, and one of 25 dollars"
    );
    let history = jobs.json("job history tour");
    let rows = history["interactions"].as_array().expect("a list");
    assert_eq!(rows.len(), 5);
    has(&rows[4]["request"]["prompt"].to_string(), &["cheaper"]);
    let metrics = jobs.json("job metrics tour");
    assert_eq!(metrics["phases"][0]["runs"], 3);
    assert_eq!(metrics["projected"]["cost_cents"], 2504.0);
    assert_eq!(jobs.says(0, "job metrics tour --csv").lines().count(), 6);
    has(
        &jobs.says(0, "job chat tour --last 1"),
        &["#5 polish to Supervisor", "cheaper", "is done"],
    );
    has(&jobs.says(0, "job list"), &["tour*", "SUCCESS", "$25.04"]);
    hub.stop();
}

#[test]
fn what_a_person_decides_is_shown_and_refused_in_plain_words() {
    let jobs = Jobs::new();
    let phase = json!([{ "name": "one", "worker_instructions": "mock: garbage,success" }]);
    let spec = json!({ "roles": ["worker"], "approval": false, "phases": phase });
    let dir = jobs.project.root().join("odd");
    fs::create_dir(&dir).expect("it is ours");
    fs::write(dir.join("job.json"), spec.to_string()).expect("it is ours");
    let hub = jobs.project.start();
    has(
        &jobs.says(2, "job status"),
        &["which job?", "switchboard job select ID"],
    );
    has(&jobs.says(1, "job status nowhere"), &["nowhere"]);
    has(&jobs.says(0, "job create odd"), &["job odd is DRAFT"]);
    has(
        &jobs.says(1, "job approve odd"),
        &["it is DRAFT, approve is not possible; activate it first"],
    );
    has(
        &jobs.says(0, "job suspend odd --reason later"),
        &["job odd is SUSPENDED"],
    );
    has(
        &jobs.says(0, "job config odd --status DRAFT"),
        &["job odd is DRAFT"],
    );
    let stuck = jobs.says(1, "job run odd");
    has(
        &stuck,
        &[
            "one: Worker STUCK → INTERVENTION_REQUIRED",
            "job odd is INTERVENTION_REQUIRED",
        ],
    );
    // What the agent printed can be read, and what it meant can be said in its place.
    has(
        &jobs.says(0, "job chat odd"),
        &["Sure! Here is what I did", "malformed"],
    );
    has(
        &jobs.says(0, "inbox --steward"),
        &["odd", "INTERVENTION_REQUIRED", "switchboard job status odd"],
    );
    has(
        &jobs.says(0, "job correct odd --action RETRY"),
        &["job odd is"],
    );
    // It goes on by itself, so that a command might come when it is done.
    let ours = dir.join("job_manifest.json");
    let shown = until("its own directory has its files", || {
        let text = fs::read(&ours).ok()?;
        let file: Value = serde_json::from_slice(&text).ok()?;
        (file["status"] == "SUCCESS").then_some(file)
    });
    assert_eq!(shown["job_id"], "odd");
    has(&jobs.says(0, "job rerun odd"), &["job odd is"]);
    jobs.spec("gone.json", &json!({ "job_id": "gone" }));
    jobs.says(0, "job create gone.json");
    has(&jobs.says(0, "job cancel gone"), &["job gone is CANCELED"]);
    hub.stop();
}

#[test]
fn ctrl_c_suspends_a_job_and_the_next_run_goes_on() {
    let jobs = Jobs::new();
    let phase = json!([{ "name": "one", "worker_instructions": "mock: hang,success" }]);
    let spec = json!({ "job_id": "j", "roles": ["worker"], "approval": false, "phases": phase });
    jobs.spec("j.json", &spec);
    let hub = jobs.project.start();
    jobs.says(0, "job create j.json");
    let mut run = jobs
        .command("job run j")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(run.stdout.take().expect("it is piped"));
    let mut said = String::new();
    while !said.contains("one: Worker begins") {
        assert_ne!(lines.read_line(&mut said).expect("text"), 0, "{said}");
    }
    let attempt = jobs.project.data_dir().join("jobs/j/workspace/one.md");
    until("the agent hangs", || attempt.exists().then_some(()));
    let pid = Pid::from_child(&run);
    kill_process(pid, Signal::INT).expect("it runs");
    lines.read_to_string(&mut said).expect("text");
    let ended = run.wait().expect("it ends");
    assert_eq!(ended.code(), Some(130));
    has(
        &said,
        &[
            "one: Worker begins",
            "job j is SUSPENDED",
            "switchboard job run j",
        ],
    );
    has(&jobs.says(0, "job status j"), &["SUSPENDED", "Ctrl-C"]);
    has(&jobs.says(0, "job run j"), &["job j is SUCCESS"]);
    hub.stop();
}

#[test]
fn schemas_are_shown_and_files_checked_and_migrated_without_a_hub() {
    let jobs = Jobs::new();
    has(
        &jobs.says(0, "schema list"),
        &["llm-chat-schema", "job-manifest", "1.0", "1.1"],
    );
    for (name, version) in [("llm-chat-schema", "1.1"), ("job-manifest", "1.0")] {
        let shown = jobs.says(0, &format!("schema show {name} --version {version}"));
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/schemas");
        let published = fs::read_to_string(format!("{root}/{name}-{version}.json"));
        assert_eq!(shown, published.expect("it is published"));
    }
    has(&jobs.says(2, "schema show nothing"), &["llm-chat-schema"]);
    has(
        &jobs.says(2, "schema show job-manifest --version 0.9"),
        &["older than what is read"],
    );

    let old = json!({ "job_id": "j", "status": "PAUSED", "metrics": {} });
    jobs.spec("old.json", &old);
    let wrong = jobs.says(1, "schema validate job-manifest old.json");
    has(&wrong, &["status"]);
    jobs.says(0, "schema migrate old.json --write");
    let new: Value = serde_json::from_slice(
        &fs::read(jobs.project.root().join("old.json")).expect("it is there"),
    )
    .expect("JSON");
    assert_eq!(
        (&new["status"], &new["schema_version"]),
        (&json!("SUSPENDED"), &json!("1.1"))
    );
    has(
        &jobs.says(0, "schema validate job-manifest old.json"),
        &["is a job-manifest of version 1.1"],
    );

    let response = json!({ "action": "COMPLETED", "evidence_files": ["gone.txt"], "summary_for_supervisor": "Done." });
    jobs.spec("response.json", &response);
    has(
        &jobs.says(0, "job validate response.json"),
        &["response.json is valid"],
    );
    has(
        &jobs.says(1, "job validate response.json --strict"),
        &["gone.txt"],
    );
    assert_eq!(jobs.json("job validate response.json")["valid"], true);
    jobs.spec("response.json", &json!({ "action": ["COMPLETED"] }));
    let wrong = jobs.json("job validate response.json");
    assert_eq!(wrong["valid"], false);
    assert!(
        wrong["errors"].as_array().is_some_and(|all| all.len() >= 3),
        "{wrong}"
    );
}
