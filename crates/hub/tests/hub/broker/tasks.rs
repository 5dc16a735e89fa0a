//! Tasks that are delegated, taken and ended by messages.

use serde_json::{Value, json};
use switchboard_core::verb::{Cancel, Claim, Filter};
use switchboard_core::{Task, TaskStatus};

use super::kit::{Client, broker, content};
use crate::harness::{TestHub, result};
use crate::world::eventually;

async fn task(hub: &TestHub, id: &str) -> Option<Task> {
    let which = switchboard_core::query::TaskRef::Id(id.into());
    hub.running
        .hub
        .read(move |ledger| ledger.task(&which))
        .await
        .unwrap()
}

async fn status(hub: &TestHub, id: &str) -> Option<TaskStatus> {
    task(hub, id).await.map(|task| task.status())
}

#[tokio::test]
async fn a_task_is_claimed_by_being_handed_over_and_ended_by_a_word() {
    let hub = broker().await;
    let mut architect = Client::role(&hub, "architect").await;
    let mut ears = Client::role(&hub, "architect").await;
    for (n, word, ended, told) in [
        (
            1,
            "DONE",
            TaskStatus::Completed,
            "[FYI] task #1 done: it is",
        ),
        (
            2,
            "FAILED",
            TaskStatus::Failed,
            "[URGENT] task #2 failed: it is",
        ),
        (
            3,
            "BLOCKED",
            TaskStatus::NeedsPerson,
            "[URGENT] task #3 needs you: ",
        ),
    ] {
        let mut builder = Client::role(&hub, "builder").await;
        let id = format!("m{n}");
        let ack = architect
            .say("builder", &id, &format!("(ARCH #{n}): [TASK] fix it {n}"))
            .await;
        assert_eq!(ack["status"], "delivered.websocket");
        let message = builder.expect("message").await;
        assert_eq!(
            content(&message),
            format!("(ARCH #{n}): [TASK] fix it {n} (task #{n})")
        );
        let made = task(&hub, &format!("sq:m{n}")).await.unwrap();
        assert_eq!(
            (made.status(), made.holder()),
            (TaskStatus::Claimed, Some(&"builder".into()))
        );
        assert_eq!(
            (made.about.title.as_str(), made.about.audience.as_slice()),
            (format!("fix it {n}").as_str(), &["builder".into()][..])
        );
        // Nobody else ends it.
        let mut oracle = Client::role(&hub, "oracle").await;
        oracle
            .say(
                "architect",
                &format!("o{n}"),
                &format!("[{word} #{n}] it is"),
            )
            .await;
        assert_eq!(
            status(&hub, &format!("sq:m{n}")).await,
            Some(TaskStatus::Claimed)
        );
        builder
            .say(
                "architect",
                &format!("d{n}"),
                &format!("(BUILDER #{n}): [{word} #{n}] it is"),
            )
            .await;
        assert_eq!(
            status(&hub, &format!("sq:m{n}")).await,
            Some(ended),
            "{word}"
        );
        let heard = hears(&mut ears, "hub").await;
        assert!(content(&heard).starts_with("(HUB #"), "{heard}");
        assert!(content(&heard).contains(told), "{heard}");
    }
}

/// The next message from somebody.
async fn hears(client: &mut Client, from: &str) -> Value {
    loop {
        let message = client.expect("message").await;
        if message["from"] == from {
            return message;
        }
    }
}

#[tokio::test]
async fn whoever_ends_a_task_its_requester_hears_once() {
    let hub = broker().await;
    let mut architect = Client::role(&hub, "architect").await;
    architect
        .say("builder", "m1", "(ARCH #1): [TASK] wait")
        .await;
    assert_eq!(
        status(&hub, "sq:m1").await,
        Some(TaskStatus::Ready),
        "nobody has it yet"
    );
    let cancel = Cancel {
        task: "sq:m1".into(),
        reason: "not needed".to_owned(),
    };
    hub.running.hub.run(cancel).await.unwrap();
    let heard = hears(&mut architect, "hub").await;
    assert!(
        content(&heard).ends_with("[FYI] task #1 canceled"),
        "{heard}"
    );
    assert!(architect.hears_no("message").await);
}

#[tokio::test]
async fn a_held_task_is_handed_again_at_the_next_connection() {
    let hub = broker().await;
    let mut architect = Client::role(&hub, "architect").await;
    let mut builder = Client::role(&hub, "builder").await;
    architect
        .say("builder", "m1", "(ARCH #1): [TASK] fix")
        .await;
    builder.expect("message").await;
    let mut is_settled = async || {
        super::kit::checked(&mut architect, "m1").await["ack"]["status"] == "delivered.websocket"
    };
    eventually(&mut is_settled).await;
    drop(builder);
    let mut again = Client::role(&hub, "builder").await;
    let message = again.expect("message").await;
    assert_eq!(content(&message), "(ARCH #1): [TASK] fix (task #1)");
    assert_eq!(
        (&message["traceId"], &message["metadata"]["redelivered"]),
        (&json!("m1"), &json!(true))
    );
    assert_eq!(status(&hub, "sq:m1").await, Some(TaskStatus::Claimed));
}

#[tokio::test]
async fn a_passing_senders_claim_is_undone() {
    let hub = broker().await;
    let mut architect = Client::role(&hub, "architect").await;
    architect
        .say("builder", "m1", "(ARCH #1): [TASK] fix")
        .await;
    let mut script = Client::role(&hub, "builder").await;
    script.expect("message").await;
    script.say("architect", "m2", "(BUILDER #1): bye").await;
    drop(script);
    eventually(async || status(&hub, "sq:m1").await == Some(TaskStatus::Ready)).await;
    let mut builder = Client::role(&hub, "builder").await;
    assert_eq!(
        content(&builder.expect("message").await),
        "(ARCH #1): [TASK] fix (task #1)"
    );
    assert_eq!(status(&hub, "sq:m1").await, Some(TaskStatus::Claimed));
}

#[tokio::test]
async fn an_agent_of_another_dialect_takes_a_task_of_its_role() {
    let hub = broker().await;
    hub.client.register("jet", &["role:oracle"]).await;
    let mut architect = Client::role(&hub, "architect").await;
    architect
        .say("oracle", "m1", "(ARCH #1): [TASK] look")
        .await;
    let claim = Claim {
        agent: "jet".into(),
        filter: Filter::default(),
        task: None,
    };
    hub.running.hub.run(claim).await.unwrap();
    let held = task(&hub, "sq:m1").await.unwrap();
    assert_eq!(held.holder(), Some(&"jet".into()));
    let done = json!({ "agentId": "jet", "result": result("seen") });
    let done = hub.client.post("/api/v1/tasks/sq:m1/complete", done).await;
    assert!(done.status < 300, "{}", done.text);
    let heard = hears(&mut architect, "hub").await;
    assert!(
        content(&heard).ends_with("[FYI] task #1 done: seen"),
        "{heard}"
    );
}

#[tokio::test]
async fn a_script_that_ends_a_task_takes_nobodys_mail_along() {
    let hub = broker().await;
    let mut architect = Client::role(&hub, "architect").await;
    architect
        .say("builder", "m1", "(ARCH #1): [TASK] fix")
        .await;
    architect.say("builder", "m2", "(ARCH #2): and then").await;
    let mut script = Client::role(&hub, "builder").await;
    script.expect("message").await;
    script.expect("message").await;
    script.say("architect", "d1", "[DONE #1] it works").await;
    assert_eq!(status(&hub, "sq:m1").await, Some(TaskStatus::Completed));
    drop(script);
    let mut builder = Client::role(&hub, "builder").await;
    assert_eq!(builder.expect("message").await["traceId"], "m2");
    assert!(
        builder.hears_no("message").await,
        "whoever ends it has read it"
    );
}

#[tokio::test]
async fn a_restart_that_is_announced_with_uncommitted_work_draws_a_warning() {
    // squidrun.safety.commit_first
    let hub = broker().await;
    let project = hub.home.path();
    let git = |words: &[&str]| {
        let done = std::process::Command::new("git")
            .args(["-c", "user.name=n", "-c", "user.email=e@example.org"])
            .args(words)
            .current_dir(project)
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "-A"]);
    git(&["commit", "-q", "--allow-empty", "-m", "first"]);
    let mut architect = Client::role(&hub, "architect").await;
    let mut builder = Client::role(&hub, "builder").await;
    std::fs::write(project.join("new.rs"), "fn f() {}").unwrap();
    builder
        .say("oracle", "r1", "(BUILDER #1): Ready for restart.")
        .await;
    let warning = hears(&mut architect, "hub").await;
    assert!(content(&warning).contains("commit first"), "{warning}");
    let told = hears(&mut builder, "hub").await;
    assert!(content(&told).contains("[URGENT] builder"), "{told}");
}
