//! Workers, programs and hubs that are killed while something is under way.

use std::fs;

use serde_json::json;
use switchboard_tests::faults::{Disk, Fault, WallClock};
use switchboard_tests::{API, Project, until};

use super::kit::{Work, git, is_dead};

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
fn reports_of_several_agents_wait_for_minutes_and_each_counts_once() {
    let (project, clock) = WallClock::of(Project::new());
    let mut work = Work::of(project);
    let tasks = ["a", "b", "c"].map(|title| work.add(json!({"title": title, "type": "code"})));
    let script = work.script(
        "cat > /dev/null; echo x > made.txt; touch ../begun ../at-$SWITCHBOARD_SLOT; while test -e ../begun; do sleep 0.02; done",
    );
    let worker = work.worker(&["-n", "3", "--exec", &script]);
    until("all work", || {
        let mut at = (1..=3).map(|slot| work.tree(&format!("at-{slot}")));
        at.all(|at| at.exists()).then_some(())
    });
    work.kill_hub();
    fs::remove_file(work.tree("begun")).expect("they go on");
    until("all reports wait", || {
        let boxes = left(&work).into_iter();
        let reports = boxes.flat_map(|agent| fs::read_dir(work.state("outbox").join(agent)));
        let reports = reports.flatten().flatten();
        let reports = reports.filter(|file| file.path().extension().is_some_and(|e| e == "json"));
        (reports.count() == 3).then_some(())
    });
    clock.set(600);
    work.restart_hub();
    for task in &tasks {
        until("it is delivered", || {
            (work.task(task)["status"] == "completed").then_some(())
        });
        let attempts = &work.details(task)["attempts"];
        assert_eq!(attempts.as_array().map(Vec::len), Some(1));
        assert_eq!(attempts[0]["outcome"], "completed");
    }
    let events = format!("{API}/events?types=task_completed");
    let events = work.hub().get(&events).expect(200);
    assert_eq!(events["events"].as_array().map(Vec::len), Some(3));
    worker.terminate();
    assert!(worker.ended().is_good);
    assert_eq!(left(&work), Vec::<String>::new());
}

#[test]
fn on_a_full_disk_a_task_goes_back_with_nothing_left_behind_and_others_are_unaffected() {
    let work = Work::new();
    let (disk, env) = Disk::of_programs();
    let env = env.each_ref().map(|(name, value)| (*name, value.as_str()));
    let script = work.script("cat > /dev/null; echo x > made.txt");
    disk.begin(Fault::DiskFull);
    let out = work.worker_with(&["--exec", &script], &env).ended();
    assert!(
        !out.is_good && out.said.contains("No space left on device"),
        "{}",
        out.said
    );
    let agents = work.hub().get(&format!("{API}/agents")).expect(200);
    assert_eq!(agents["agents"], json!([]));
    disk.end(Fault::DiskFull);
    let worker = work.worker_with(&["--exec", &script], &env);
    until("it is there", || {
        worker.said().contains("ready").then_some(())
    });
    disk.begin(Fault::DiskFull);
    let task = work.add(json!({"title": "t", "type": "code", "maxRetries": 0}));
    until("it goes back", || {
        worker.said().contains("given back").then_some(())
    });
    let said = worker.said();
    assert!(said.contains("No space left on device"), "{said}");
    let back = work.task(&task);
    assert_eq!(
        (&back["status"], &back["retryCount"]),
        (&json!("ready"), &json!(0)),
        "{said}"
    );
    assert_eq!(git(work.root(), &["branch", "--list", "sb/*"]), "");
    assert_eq!(git(work.root(), &["worktree", "list"]).lines().count(), 1);
    let other = work.worker(&["--once", "--exec", &script]).ended();
    assert!(other.is_good, "{}", other.said);
    assert_eq!(work.task(&task)["status"], "completed");
    disk.end(Fault::DiskFull);
    worker.terminate();
    assert!(worker.ended().is_good);
}

#[test]
fn what_was_done_when_the_disk_is_full_stays_and_the_report_is_sent_all_the_same() {
    let work = Work::new();
    let (disk, env) = Disk::of_programs();
    let env = env.each_ref().map(|(name, value)| (*name, value.as_str()));
    let task = work.add(json!({"title": "t", "type": "code", "maxRetries": 0}));
    let worker = work.worker_with(&["--exec", &work.script(WAITS)], &env);
    let begun = begun(&work);
    disk.begin(Fault::DiskFull);
    fs::remove_file(begun).expect("it goes on");
    until("it is reported", || {
        (work.task(&task)["status"] == "pending_retry").then_some(())
    });
    until("it is said", || {
        worker
            .said()
            .contains("the report cannot be kept")
            .then_some(())
    });
    let failed = work.task(&task);
    assert_eq!(
        (&failed["failureType"], &failed["retryCount"]),
        (&json!("resource_error"), &json!(0))
    );
    let error = failed["lastError"].to_string();
    assert!(error.contains("No space left on device"), "{error}");
    disk.end(Fault::DiskFull);
    worker.terminate();
    assert!(worker.ended().is_good);
    let made = work.tree("1-t").join("made.txt");
    assert!(made.exists(), "what is not committed is not removed");
    let attempts = &work.details(&task)["attempts"];
    assert_eq!(attempts.as_array().map(Vec::len), Some(1));
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
