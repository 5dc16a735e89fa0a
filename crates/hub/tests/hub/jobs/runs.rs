//! Agents at work: what they say, how they end, and in which order they begin.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_core::job::{JobLimits, JobSpec, JobState};
use switchboard_core::job_history::RecoveryPoint;
use switchboard_core::verb::job::Decision;

use super::{DONE, kit, says, spec};

#[tokio::test]
async fn a_job_goes_through_work_and_review_and_its_files_say_so() {
    let reviewed =
        r#"{"action":"COMPLETED","evidence_files":[],"summary_for_supervisor":"It is well done."}"#;
    let kit = kit(&says(DONE), &says(reviewed), |_| {}).await;
    kit.run(spec("j")).await;
    kit.is("j", JobState::Success).await;
    let manifest = kit
        .file("j", "job_manifest.json", |it| it["status"] == "SUCCESS")
        .await;
    assert_eq!(manifest["job_id"], "j");
    let history = kit
        .file("j", "jobHistory.json", |it| {
            it["interactions"][1].is_object()
        })
        .await;
    let (first, second) = (&history["interactions"][0], &history["interactions"][1]);
    assert_eq!(
        (&first["sequence"], &second["sequence"]),
        (&json!(1), &json!(2))
    );
    assert_eq!(first["state_before"], "PENDING");
    assert_eq!(second["state_before"], "REVIEW_REQUIRED");
    assert_eq!(second["response"]["new_status"], "SUCCESS");
    let raw = first["response"]["raw_response"].as_str().unwrap();
    assert_eq!(raw.trim(), DONE);
    let prompt = first["request"]["prompt"].as_str().unwrap();
    let request: Value = serde_json::from_str(prompt).unwrap();
    assert_eq!(request["job_id"], "j");
    let reviewed: Value =
        serde_json::from_str(second["request"]["prompt"].as_str().unwrap()).unwrap();
    assert_eq!(reviewed["context_files"], json!(["made.txt"]));
    let outcome = kit
        .file("j", "latest-outcome.json", |it| it["sequence"] == 2)
        .await;
    assert_eq!(outcome["action"], "COMPLETED");
    let last = fs::read_to_string(kit.directory("j").join("prompt.md")).unwrap();
    assert_eq!(last, second["request"]["prompt"].as_str().unwrap());
    let config = kit.file("j", "config.json", Value::is_object).await;
    assert_eq!(config["job_spec"]["phases"][0]["name"], "build");
    assert!(kit.directory("j").join("logs/1-worker.log").is_file());
    let points = kit
        .read(|ledger| ledger.privates::<RecoveryPoint>(&RecoveryPoint::of_job(&"j".into(), 9)))
        .await;
    assert_eq!(
        points
            .iter()
            .map(|point| point.id.as_str())
            .collect::<Vec<_>>(),
        ["start", "phase-1-complete"]
    );
    assert!(points.iter().all(|point| point.commit.is_some()));
    let index = kit
        .hub
        .home
        .path()
        .join(".switchboard/jobs/jobs_index.json");
    let index: Value = serde_json::from_slice(&fs::read(index).unwrap()).unwrap();
    assert_eq!(index["current_job_id"], "j");
    assert!(index["jobs"]["j"].as_str().unwrap().ends_with("jobs/j"));
}

#[tokio::test]
async fn each_way_to_answer_wrongly_is_named_and_stops_the_job() {
    for (script, part) in [
        ("echo Sure, here you are".to_owned(), "malformed_json"),
        (
            says(r#"{"action":"DONE","evidence_files":[],"summary_for_supervisor":"x"}"#),
            "action_invalid",
        ),
        (
            says(
                r#"{"action":"COMPLETED","evidence_files":["../x"],"summary_for_supervisor":"x"}"#,
            ),
            "leads out of the workspace",
        ),
        (
            "ln -s /etc out; ".to_owned()
                + &says(
                    r#"{"action":"COMPLETED","evidence_files":["out/passwd"],"summary_for_supervisor":"x"}"#,
                ),
            "leads out of the workspace",
        ),
        (
            says(r#"{"action":"COMPLETED","evidence_files":[],"summary_for_supervisor":" "}"#),
            "summary_missing",
        ),
        (
            "head -c 100000000 /dev/zero | tr '\\0' x".to_owned(),
            "100000000 bytes",
        ),
        ("echo broken >&2; exit 3".to_owned(), "code 3: broken"),
        ("exit 124".to_owned(), "longer than it may"),
        ("kill -9 $$".to_owned(), "signal"),
        ("echo '401 Unauthorized' >&2; exit 1".to_owned(), "401"),
    ] {
        let kit = kit(&script, "true", |_| {}).await;
        kit.run(spec("j")).await;
        kit.is("j", JobState::InterventionRequired).await;
        let interactions = kit.interactions("j").await;
        assert_eq!(interactions.len(), 1, "{script}");
        let error = format!(
            "{:?} {:?}",
            interactions[0].violation.map(|it| it.as_str()),
            interactions[0].error
        );
        assert!(error.contains(part), "{script}: {error}");
    }
}

#[tokio::test]
async fn a_hang_and_a_run_that_takes_too_long_end_with_all_their_processes() {
    for (quiet_ms, millis) in [(300, 3_600_000), (3_600_000, 300)] {
        let kit = kit(
            "trap '' INT TERM\nsleep 600 & wait\nsleep 600",
            "true",
            |config| {
                config.logist.worker_quiet = Duration::from_millis(quiet_ms);
            },
        );
        let kit = kit.await;
        let limits = JobLimits {
            millis,
            ..JobLimits::default()
        };
        kit.run_within(spec("j"), limits).await;
        let job = kit.until("j", |job| job.last_sequence == 1).await;
        let row = kit.interactions("j").await.remove(0);
        assert_eq!(row.status.as_str(), "TIMEOUT", "{row:?}");
        let state = if millis == 300 {
            JobState::HaltedTime
        } else {
            JobState::InterventionRequired
        };
        assert_eq!(job.state, state);
        assert!(switchboard_child::orphans::carriers(&[&row.run]).is_empty());
    }
}

#[tokio::test]
async fn errors_of_the_call_are_tried_again_three_times() {
    let script = r#"echo '{"error":{"type":"network","message":"connection reset"}}'"#;
    let kit = kit(script, "true", |config| {
        config.logist.api_wait = Duration::from_millis(20)
    })
    .await;
    kit.run(spec("j")).await;
    let job = kit.is("j", JobState::InterventionRequired).await;
    let rows = kit.interactions("j").await;
    let actions: Vec<&str> = rows.iter().map(|row| row.action.as_str()).collect();
    assert_eq!(actions, ["RETRY", "RETRY", "RETRY", "STUCK"]);
    assert_eq!(job.sums.iterations, 0);
    let waits: Vec<i64> = rows
        .windows(2)
        .map(|two| two[1].at.0 - two[0].at.0)
        .collect();
    assert!(
        waits[0] >= 20 && waits[1] >= 40 && waits[2] >= 80,
        "{waits:?}"
    );
}

#[tokio::test]
async fn so_many_run_at_a_time_in_the_order_of_the_queue() {
    // Each notes when it came, and waits until two are there.
    let script = format!(
        "cat > /dev/null\npwd >> $KIT/came\nuntil [ -e $KIT/go ]; do sleep 0.01; done\n{}",
        says(DONE)
    );
    let kit = kit(&script, &says(DONE), |config| config.logist.runs = 2).await;
    let home = kit.hub.home.path();
    let (came, go) = (home.join("came"), home.join("go"));
    for id in ["a", "b", "c"] {
        kit.run(spec(id)).await;
    }
    for id in ["a", "b"] {
        kit.is(id, JobState::Running).await;
    }
    let lines = || {
        fs::read_to_string(&came)
            .unwrap_or_default()
            .lines()
            .count()
    };
    while lines() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(kit.job("c").await.state, JobState::Pending);
    fs::write(&go, "").unwrap();
    for id in ["a", "b", "c"] {
        kit.is(id, JobState::Success).await;
    }
    let said = fs::read_to_string(&came).unwrap();
    assert!(
        said.lines().nth(2).unwrap().ends_with("c/workspace"),
        "{said}"
    );
}

#[tokio::test]
async fn a_job_that_is_suspended_or_canceled_ends_its_agent_and_goes_on_when_resumed() {
    let script = format!(
        "cat > /dev/null\n[ -e $KIT/go ] || sleep 600\n{}",
        says(DONE)
    );
    let kit = kit(&script, &says(DONE), |_| {}).await;
    kit.run(spec("j")).await;
    let first = kit.is("j", JobState::Running).await.run.unwrap().id;
    let works = || !switchboard_child::orphans::carriers(&[&first]).is_empty();
    while !works() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    kit.decide("j", Decision::Suspend).await;
    while works() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(kit.job("j").await.state, JobState::Suspended);
    fs::write(kit.hub.home.path().join("go"), "").unwrap();
    kit.decide("j", Decision::Resume).await;
    kit.is("j", JobState::Success).await;
    assert_eq!(kit.interactions("j").await.len(), 2);
}

#[tokio::test]
async fn a_phase_that_is_tried_again_begins_with_the_files_it_began_with() {
    let script = format!(
        "cat > /dev/null\nls >> $KIT/found\nif [ ! -e $KIT/once ]; then touch $KIT/once; echo x > left.txt; cat <<'END'\n{}\nEND\nelse\n{}\nfi\n",
        r#"{"action":"RETRY","evidence_files":["left.txt"],"summary_for_supervisor":"Again."}"#,
        says(DONE)
    );
    let kit = kit(&script, "true", |_| {}).await;
    kit.run(JobSpec {
        reset_on_retry: true,
        roles: vec!["worker".to_owned()],
        ..spec("j")
    })
    .await;
    kit.is("j", JobState::Success).await;
    let found = fs::read_to_string(kit.hub.home.path().join("found")).unwrap();
    assert_eq!(
        found, "",
        "the second attempt found what the first one left"
    );
}
