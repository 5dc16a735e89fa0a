//! Jobs of a hub that is killed: at every stage of a run, with real agents that outlive it.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_tests::{API, Hub, Project, Random, until};

/// One at a time in the workspace, or it is noted. Each that begins and each that answers is noted too.
const AGENT: &str = r#"exec 9> "$KIT/turn"
flock -n 9 || echo "$SWITCHBOARD_RUN_ID" >> "$KIT/beside"
cat > /dev/null
echo "$SWITCHBOARD_RUN_ID" >> "$KIT/began"
sleep 0.05
echo "$SWITCHBOARD_RUN_ID" >> done.txt
sleep 0.05
echo '{"action":"COMPLETED","evidence_files":["done.txt"],"summary_for_supervisor":"Done.","metrics":{"cost_usd":0.01}}'
"#;

fn project(agent: &str) -> Project {
    let project = Project::new();
    let script = project.root().join("agent.sh");
    let kit = project.root().display().to_string();
    fs::write(&script, agent.replace("$KIT", &kit)).expect("it is ours");
    let command = format!("sh {}", script.display());
    let settings = format!("[logist.agents.worker]\ncommand = {command:?}\n");
    fs::write(project.root().join("switchboard.toml"), settings).expect("it is ours");
    project
}

fn begin(hub: &Hub, phases: usize) {
    let phases: Vec<Value> = (1..=phases)
        .map(|phase| json!({ "name": format!("p{phase}") }))
        .collect();
    let spec = json!({ "job_id": "j", "roles": ["worker"], "approval": false, "phases": phases });
    let mut client = hub.client();
    let body = json!({ "protocolVersion": "1.0", "job_spec": spec });
    client.post(&format!("{API}/jobs"), &body).expect(201);
    let body = json!({ "protocolVersion": "1.0" });
    client
        .post(&format!("{API}/jobs/j/activate"), &body)
        .expect(200);
}

fn job(hub: &Hub) -> Value {
    hub.client().get(&format!("{API}/jobs/j")).expect(200)["job"].clone()
}

fn lines(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Every phase was done once and counted once, nobody worked beside another, and the files tell the same.
fn check(project: &Project, hub: &Hub, phases: u64) {
    let done = until("the job is done", || {
        let job = job(hub);
        (job["status"] == "SUCCESS").then_some(job)
    });
    let history = hub
        .client()
        .get(&format!("{API}/jobs/j/history?limit=1000"))
        .expect(200);
    let rows = history["interactions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let sequences: Vec<u64> = rows
        .iter()
        .filter_map(|row| row["sequence"].as_u64())
        .collect();
    assert_eq!(sequences, (1..=phases).collect::<Vec<_>>());
    let actions: HashSet<&str> = rows
        .iter()
        .filter_map(|row| row["response"]["action"].as_str())
        .collect();
    assert_eq!(actions, HashSet::from(["COMPLETED"]));
    assert_eq!(
        done["metrics"]["cumulative_cost"].as_f64(),
        Some(phases as f64),
        "{done:#}"
    );
    assert_eq!(done["metrics"]["iterations"], phases);
    assert_eq!(
        lines(&project.root().join("beside")),
        [""; 0],
        "nobody works beside another"
    );
    let directory = PathBuf::from(done["directory"].as_str().expect("it has one"));
    let read = |name: &str| -> Option<Value> {
        serde_json::from_slice(&fs::read(directory.join(name)).ok()?).ok()
    };
    until("the files tell the same", || {
        let (manifest, history) = (read("job_manifest.json")?, read("jobHistory.json")?);
        let is_done = manifest["status"] == "SUCCESS";
        (is_done && history["interactions"] == Value::from(rows.clone())).then_some(())
    });
}

#[test]
fn a_hub_that_is_killed_at_any_moment_of_a_run_loses_and_doubles_nothing() {
    const PHASES: usize = 8;
    let project = project(AGENT);
    let seed = Random::seed_from("JOB_CRASH_SEED");
    let mut random = Random::seeded(seed);
    let mut hub = project.start();
    begin(&hub, PHASES);
    for _ in 0..10 {
        sleep(Duration::from_millis(random.below(250)));
        hub.kill();
        hub = project.start();
    }
    check(&project, &hub, PHASES as u64);
    // What a killed run had begun, its successor began again.
    let began = lines(&project.root().join("began"));
    assert!(began.len() >= PHASES, "{began:?}");
    assert_eq!(began.iter().collect::<HashSet<_>>().len(), began.len());
}

#[test]
fn an_agent_that_outlives_its_hub_is_ended_before_the_phase_runs_again() {
    // It ignores what it is told, and has a child in a session of its own.
    let deaf = r#"exec 9> "$KIT/turn"
flock -n 9 || echo "$SWITCHBOARD_RUN_ID" >> "$KIT/beside"
trap '' TERM INT HUP
cat > /dev/null
if [ ! -e "$KIT/go" ]; then
    setsid sleep 600 &
    echo "$SWITCHBOARD_RUN_ID" >> "$KIT/began"
    sleep 600 & wait
    sleep 600
fi
echo '{"action":"COMPLETED","evidence_files":[],"summary_for_supervisor":"Done.","metrics":{"cost_usd":0.01}}'
"#;
    let project = project(deaf);
    let mut hub = project.start();
    begin(&hub, 1);
    let began = project.root().join("began");
    let run = until("the agent works", || lines(&began).pop());
    hub.kill();
    assert!(carriers(&run) > 0, "they outlive it");
    fs::write(project.root().join("go"), "").expect("it is ours");
    let hub = project.start();
    check(&project, &hub, 1);
    assert_eq!(carriers(&run), 0);
    let manifest = job(&hub);
    let told = manifest["history"].as_array().expect("it has one").iter();
    let recovered = told.filter(|event| event["action"] == "recovered").count();
    assert_eq!(recovered, 1, "{manifest:#}");
}

fn carriers(run: &str) -> usize {
    switchboard_child::orphans::carriers(&[run]).len()
}
