//! Workers, programs and hubs that are killed while something is under way.

use std::fs;

use serde_json::json;
use switchboard_tests::{API, until};

use super::kit::{Work, is_dead};

/// Works until it is told to end.
const WAITS: &str = "cat > /dev/null; echo x > made.txt; echo $$ > ../pid; touch ../begun; while test -e ../begun; do sleep 0.02; done";

fn begun(work: &Work) -> std::path::PathBuf {
    let begun = work.tree("begun");
    until("it works", || begun.exists().then_some(()));
    begun
}

#[test]
fn a_report_waits_for_a_hub_that_is_away_and_counts_once() {
    // jetpack.error.db_unavailable
    let mut work = Work::new();
    let task = work.add(json!({"title": "t", "type": "code"}));
    let worker = work.worker(&["--once", "--exec", &work.script(WAITS)]);
    let begun = begun(&work);
    work.kill_hub();
    fs::remove_file(begun).expect("it goes on");
    until("the report waits", || {
        worker.said().contains("the report waits").then_some(())
    });
    work.restart_hub();
    let out = worker.ended();
    assert!(out.is_good, "{}", out.said);
    let attempts = &work.details(&task)["attempts"];
    assert_eq!(attempts.as_array().map(Vec::len), Some(1));
    assert_eq!(attempts[0]["outcome"], "completed");
    assert_eq!(left(&work), Vec::<String>::new());
}

#[test]
fn a_report_outlives_a_worker_that_is_killed_and_the_next_one_delivers_it_under_its_id() {
    let mut work = Work::new();
    let task = work.add(json!({"title": "t", "type": "code"}));
    let worker = work.worker(&["--exec", &work.script(WAITS)]);
    let begun = begun(&work);
    work.kill_hub();
    fs::remove_file(begun).expect("it goes on");
    until("the report waits", || {
        worker.said().contains("the report waits").then_some(())
    });
    worker.kill();
    drop(worker);
    let boxes = left(&work);
    assert_eq!(boxes.len(), 1, "{boxes:?}");
    work.restart_hub();
    let next = work.worker(&["--exec", "true"]);
    until("it is delivered", || {
        (work.task(&task)["status"] == "completed").then_some(())
    });
    let attempts = &work.details(&task)["attempts"];
    assert_eq!(attempts.as_array().map(Vec::len), Some(1));
    assert_eq!(attempts[0]["agentId"], boxes[0].as_str());
    assert!(next.said().contains(&boxes[0]), "{}", next.said());
    next.terminate();
    assert!(next.ended().is_good);
    assert_eq!(left(&work), Vec::<String>::new());
}

#[test]
fn a_worker_that_is_killed_at_work_leaves_no_program_behind_and_its_task_to_the_next() {
    let work = Work::new();
    let task = work.add(json!({"title": "t", "type": "code"}));
    let worker = work.worker(&["--exec", &work.script(WAITS)]);
    let begun = begun(&work);
    let pid = fs::read_to_string(work.tree("pid")).expect("it wrote it");
    worker.kill();
    drop(worker);
    assert!(!is_dead(pid.trim()), "nobody has ended it");
    let finish = work.script("cat > /dev/null; test -e made.txt; echo y > more.txt");
    let next = work.worker(&["--once", "--exec", &finish]);
    until("it ends", || is_dead(pid.trim()).then_some(()));
    let out = next.ended();
    assert!(out.is_good, "{}", out.said);
    let done = work.task(&task);
    assert_eq!(
        (&done["status"], &done["retryCount"]),
        (&json!("completed"), &json!(0))
    );
    assert_eq!(
        done["result"]["filesCreated"],
        json!(["made.txt", "more.txt"]),
        "it went on where the other was cut off"
    );
    let _ = fs::remove_file(begun);
}

#[test]
fn a_report_that_the_hub_has_already_is_settled_and_one_of_another_epoch_is_thrown_away() {
    // jetpack.error.task_already_claimed
    let work = Work::new();
    let task = work.add(json!({"title": "t", "type": "code"}));
    let other = work.add(json!({"title": "u", "type": "code"}));
    let mut hub = work.hub();
    hub.register("gone");
    for id in [&task, &other] {
        let claim = json!({"agentId": "gone", "taskId": id});
        hub.post(&format!("{API}/tasks/claim"), &claim).expect(200);
    }
    hub.complete("gone", &task, 1);
    hub.post(&format!("{API}/tasks/{other}/release"), &json!({}))
        .expect(200);
    let dir = work.state("outbox/gone");
    fs::create_dir_all(&dir).expect("made");
    fs::write(dir.join("lock"), "").expect("written");
    for (key, id) in [("k1", &task), ("k2", &other)] {
        let result =
            json!({"filesCreated": [], "filesModified": [], "filesDeleted": [], "summary": "mine"});
        let body = json!({"complete": {"agentId": "gone", "epoch": 1, "result": result}});
        let report = json!({"key": key, "task": id, "number": 1, "body": body});
        fs::write(dir.join(format!("{key}.json")), report.to_string()).expect("written");
    }
    let worker = work.worker(&["--exec", "sh -c 'echo x > y.txt'"]);
    until("both are settled", || {
        worker.said().contains("was reported before").then_some(())
    });
    until("both are settled", || {
        worker
            .said()
            .contains("the report was refused")
            .then_some(())
    });
    // jetpack: claim a new task.
    until("it claims another", || {
        (work.task(&other)["status"] == "completed").then_some(())
    });
    assert_eq!(
        work.task(&task)["result"]["summary"],
        "done",
        "the first report holds"
    );
    assert_ne!(work.task(&other)["result"]["summary"], "mine");
    worker.terminate();
    assert!(worker.ended().is_good);
}

/// The agents whose reports or locks are still there.
fn left(work: &Work) -> Vec<String> {
    let entries = fs::read_dir(work.state("outbox"))
        .into_iter()
        .flatten()
        .flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}
