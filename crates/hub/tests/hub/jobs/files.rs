//! Directories: what is in them, what is edited in them, and what was in them before.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use switchboard_core::job::{JobPhase, JobSpec, JobState};
use switchboard_core::verb::job::Decision;

use super::{DONE, kit, says, spec};

#[tokio::test]
async fn a_directory_that_cannot_be_used_stops_its_own_job_alone() {
    let kit = kit(&says(DONE), &says(DONE), |_| {}).await;
    // Where the directory would be there is a file.
    let blocked = kit.directory("blocked");
    fs::create_dir_all(blocked.parent().unwrap()).unwrap();
    fs::write(&blocked, "mine").unwrap();
    kit.run(spec("blocked")).await;
    kit.run(spec("fine")).await;
    kit.is("fine", JobState::Success).await;
    kit.is("blocked", JobState::InterventionRequired).await;
    let row = kit.interactions("blocked").await.remove(0);
    assert!(row.error.unwrap().contains("jobs/blocked"));
    assert_eq!(fs::read_to_string(&blocked).unwrap(), "mine");
    // One that was removed is written again with the next step.
    kit.run(spec("removed")).await;
    kit.is("removed", JobState::Success).await;
    kit.file("removed", "job_manifest.json", |it| {
        it["status"] == "SUCCESS"
    })
    .await;
    fs::remove_dir_all(kit.directory("removed")).unwrap();
    kit.decide("removed", Decision::Rerun { phase: 0 }).await;
    kit.until("removed", |job| job.last_sequence == 4).await;
    kit.file("removed", "jobHistory.json", |it| {
        it["interactions"][3].is_object()
    })
    .await;
}

#[tokio::test]
async fn an_edit_of_the_manifest_is_a_request_or_is_undone_with_the_reason() {
    let kit = kit("sleep 600", "true", |config| config.logist.runs = 0).await;
    kit.run(spec("j")).await;
    let mut manifest = kit
        .file("j", "job_manifest.json", |it| it["status"] == "PENDING")
        .await;
    manifest["description"] = "another".into();
    manifest["status"] = "SUSPENDED".into();
    manifest["cost_threshold"] = 5.into();
    manifest["metrics"]["cumulative_cost"] = 99.into();
    manifest["job_id"] = "k".into();
    let path = kit.directory("j").join("job_manifest.json");
    fs::write(&path, manifest.to_string()).unwrap();
    let jobs = kit.hub.running.jobs();
    jobs.look(Some(&"j".into())).await.unwrap();
    let job = kit.job("j").await;
    assert_eq!(job.state, JobState::Suspended);
    assert_eq!(job.limits.cost_micros, 50_000);
    let shown = kit
        .file("j", "job_manifest.json", |it| it["job_id"] == "j")
        .await;
    assert_eq!(shown["description"], "another");
    assert_eq!(shown["metrics"]["cumulative_cost"], 0);
    let history = shown["history"].as_array().unwrap();
    let actions: Vec<&str> = history
        .iter()
        .filter_map(|event| event["action"].as_str())
        .collect();
    assert_eq!(
        actions.iter().filter(|it| **it == "edited by hand").count(),
        3,
        "{actions:?}"
    );
    let undone = history
        .iter()
        .find(|event| event["action"] == "edit undone")
        .unwrap();
    let why = undone["why"].as_str().unwrap();
    assert!(
        why.contains("job_id: ") && why.contains("metrics: "),
        "{why}"
    );
    // Looked at again, nothing is asked for.
    let version = kit.job("j").await.version;
    jobs.look(Some(&"j".into())).await.unwrap();
    assert_eq!(kit.job("j").await.version, version);
    fs::write(&path, "{ not json").unwrap();
    jobs.look(Some(&"j".into())).await.unwrap();
    let shown = kit.file("j", "job_manifest.json", Value::is_object).await;
    let last = shown["history"].as_array().unwrap().last().unwrap();
    assert!(
        last["why"].as_str().unwrap().contains("not valid JSON"),
        "{last}"
    );
}

#[tokio::test]
async fn prompts_of_a_sensitive_job_are_encrypted_wherever_they_are_stored() {
    let key = "ab".repeat(32);
    for key in [Some(key), None] {
        let with = key.clone();
        let kit = kit(&says(DONE), &says(DONE), |config| {
            config.logist.key.text = with
        })
        .await;
        kit.run(JobSpec {
            is_sensitive: true,
            roles: vec!["worker".to_owned()],
            ..spec("j")
        })
        .await;
        if key.is_none() {
            kit.is("j", JobState::InterventionRequired).await;
            let row = kit.interactions("j").await.remove(0);
            assert!(row.error.unwrap().contains("key_file"));
            continue;
        }
        kit.is("j", JobState::Success).await;
        let history = kit
            .file("j", "jobHistory.json", |it| {
                it["interactions"][0].is_object()
            })
            .await;
        let prompt = history["interactions"][0]["request"]["prompt"]
            .as_str()
            .unwrap();
        assert!(prompt.starts_with("aes-256-gcm-siv:"), "{prompt}");
        let text = fs::read_to_string(kit.directory("j").join("prompt.md")).unwrap();
        assert_eq!(text, prompt);
        let row = kit.interactions("j").await.remove(0);
        let packed = switchboard_core::job_history::Packed(text);
        let clear = kit
            .hub
            .running
            .jobs()
            .packer()
            .open(&packed, &"j".into(), &row.run)
            .unwrap();
        assert!(clear.contains("build it"));
    }
}

#[tokio::test]
async fn a_history_that_grows_is_rotated_and_each_interaction_is_still_found() {
    let kit = kit(&says(DONE), &says(DONE), |config| {
        config.logist.history_bytes_max = 4000
    })
    .await;
    let phases = (1..=6).map(|number| JobPhase {
        name: format!("p{number}"),
        ..JobPhase::default()
    });
    kit.run(JobSpec {
        phases: phases.collect(),
        roles: vec!["worker".to_owned()],
        ..spec("j")
    })
    .await;
    kit.is("j", JobState::Success).await;
    let directory = kit.directory("j");
    kit.file("j", "jobHistory.json", |it| {
        let rows = it["interactions"].as_array().cloned().unwrap_or_default();
        rows.last().is_some_and(|row| row["sequence"] == 6)
    })
    .await;
    let history = fs::metadata(directory.join("jobHistory.json")).unwrap();
    assert!(history.len() < 8000, "{}", history.len());
    assert!(
        fs::read_dir(directory.join("history"))
            .unwrap()
            .next()
            .is_some()
    );
    for sequence in 1..=6 {
        let row = switchboard_hub::jobs::interaction(&directory, sequence)
            .unwrap()
            .unwrap();
        assert_eq!(row["sequence"], sequence);
        assert_eq!(row["response"]["action"], "COMPLETED");
    }
    assert_eq!(
        switchboard_hub::jobs::interaction(&directory, 7).unwrap(),
        None
    );
    let replayed = kit
        .read(|ledger| switchboard_hub::jobs::replay(ledger, &"j".into(), None))
        .await;
    assert_eq!(replayed.len(), 6);
    assert!(
        replayed.iter().all(|one| one.differs.is_none()),
        "{replayed:?}"
    );
}

#[tokio::test]
async fn jobs_of_the_old_program_are_taken_over_and_what_makes_no_sense_is_left() {
    let kit = kit("sleep 600", "true", |config| config.logist.runs = 0).await;
    let old = kit.hub.home.path().join("old");
    let put = |path: &str, value: Value| {
        let path = old.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, value.to_string()).unwrap();
    };
    let manifest = |id: &str, status: &str| {
        json!({ "job_id": id, "description": "old", "status": status, "current_phase": "two",
            "phases": [{ "name": "one" }, { "name": "two" }],
            "metrics": { "cumulative_cost": 12.5, "cumulative_time_seconds": 3.0 }, "history": [] })
    };
    let interaction = json!({
        "sequence": 0, "timestamp": "2025-01-29T14:30:45Z", "state_before": "PENDING", "workspace_path": "/w",
        "request": { "prompt": "do it", "files_context": [], "metadata": { "role": "Worker", "phase": "one" } },
        "response": { "status": "SUCCESS", "action": "COMPLETED", "evidence_files": [],
            "summary_for_supervisor": "Did it.", "raw_response": "{}", "execution_time_seconds": 3.0, "cost_usd": 0.125 },
    });
    put("a/job_manifest.json", manifest("a", "PAUSED"));
    put("a/jobHistory.json", json!([interaction]));
    put("b/job_manifest.json", manifest("b", "FAILED"));
    put(
        "b/jobHistory.json",
        json!({ "job_id": "b", "interactions": [], "recovery_points": [] }),
    );
    put("c/job_manifest.json", manifest("c", "NONSENSE"));
    put("d/job_manifest.json", json!({ "job_id": "../d" }));
    put(
        "jobs_index.json",
        json!({ "current_job_id": "a", "jobs": { "a": "a" }, "queue": ["a"] }),
    );
    let told = kit.hub.running.jobs().import(&old).await.unwrap().unwrap();
    let ids: Vec<(&str, bool)> = told
        .iter()
        .map(|one| (one.job_id.as_str(), one.left.is_none()))
        .collect();
    assert_eq!(
        ids,
        [("a", true), ("b", true), ("c", false), ("d", false)],
        "{told:?}"
    );
    let job = kit.job("a").await;
    assert_eq!(
        (job.state, job.phase, job.sums.cost_micros),
        (JobState::Suspended, 1, 125_000)
    );
    let row = kit.interactions("a").await.remove(0);
    assert_eq!(
        (row.sequence, row.cost_micros, row.new_status),
        (1, 125_000, JobState::ReviewRequired)
    );
    assert_eq!(kit.job("b").await.state, JobState::Canceled);
    assert!(old.join("a/backups/job_manifest.json.imported").is_file());
    let kept = fs::read_to_string(old.join("c/job_manifest.json")).unwrap();
    assert!(kept.contains("NONSENSE"));
    // Again, nothing is taken twice.
    let again = kit.hub.running.jobs().import(&old).await.unwrap().unwrap();
    assert!(again.iter().all(|one| one.left.is_some()), "{again:?}");
}

#[tokio::test]
async fn two_jobs_never_share_a_directory_however_it_is_named() {
    let kit = kit("sleep 600", "true", |config| config.logist.runs = 0).await;
    let jobs = kit.hub.running.jobs();
    let home = kit.hub.home.path().canonicalize().unwrap();
    fs::create_dir_all(home.join("real")).unwrap();
    std::os::unix::fs::symlink(home.join("real"), home.join("link")).unwrap();
    let place = |path: &Path| jobs.place(&"j".into(), Some(path));
    assert_eq!(place(&home.join("link/x")).unwrap(), home.join("real/x"));
    assert_eq!(place(&home.join("link")).unwrap(), home.join("real"));
    assert_eq!(
        place(Path::new("name")).unwrap(),
        home.join(".switchboard/jobs/name")
    );
    assert_eq!(
        jobs.place(&"j".into(), None).unwrap(),
        home.join(".switchboard/jobs/j")
    );
    kit.run(spec("j")).await;
    for whole in [
        home.clone(),
        home.join(".switchboard"),
        home.join(".switchboard/jobs"),
    ] {
        assert!(place(&whole).unwrap_err().contains("choose another"));
    }
}
