//! One swarm: what is begun at one door is ended at another, in both directions.

use serde_json::{Value, json};
use switchboard_tests::{API, Client, completion, until};

use super::peer::{Assigned, Peer, state};
use super::swarm::{Swarm, everywhere, now};

const PLAIN: &str = "";

#[test]
fn a_task_of_http_is_done_by_a_worker_of_the_bus() {
    everywhere(PLAIN, |swarm| {
        let mut http = swarm.http();
        let mut worker = Peer::worker(swarm.bus(), "w", &["assign.v1", "Rust"]);
        let made = json!({"id": "t", "title": "build it", "description": "all of it", "files": ["src/a.rs"],
            "requiredSkills": ["rust"], "branch": "feature"});
        let made = http.post(&format!("{API}/tasks"), &made).expect(201);
        let given = worker.hear("task_assigned.v1");
        for (field, expected) in [
            ("issue_number", made["task"]["number"].clone()),
            ("task_id", json!("t")),
            ("epoch", json!(1)),
            ("attempt", json!(1)),
            ("title", json!("build it")),
            ("description", json!("all of it")),
            ("files", json!(["src/a.rs"])),
            ("branch", json!("feature")),
        ] {
            assert_eq!(given[field], expected, "{field} in {given}");
        }
        let task = Assigned::of(&given);
        worker.accept(&task);
        let shown = swarm.becomes("t", "in_progress");
        assert_eq!(shown["assignedAgent"], "w", "{shown}");
        let progress = json!({"issue_number": task.number, "attempt": 1, "stage": "VALIDATE",
            "progress": {"step": "tests", "percent": 40}, "note": "half way"});
        worker
            .say("task_progress.v1", progress)
            .expect("it can be said");
        let shown = until("its progress shows", || {
            let shown = http.task("t");
            (shown["progress"]["percentComplete"] == 40).then_some(shown)
        });
        assert_eq!(shown["progress"]["phase"], "testing", "{shown}");
        worker.finish(&task);
        let shown = swarm.becomes("t", "completed");
        assert_eq!(shown["result"]["summary"], "done on the bus", "{shown}");
        assert_eq!(shown["result"]["filesModified"], json!(["src/bus.rs"]));
        let agent = http.get(&format!("{API}/agents/w")).expect(200);
        assert_eq!(agent["agent"]["tasksCompleted"], 1, "{agent}");
    });
}

#[test]
fn an_issue_that_the_bus_brought_is_finished_over_http() {
    const ISSUE: u64 = 4711;
    everywhere("[agentbus]\nadopt_issues = true\n", |swarm| {
        let mut http = swarm.http();
        let mut worker = Peer::worker(swarm.bus(), "w", &[]);
        worker.beat("CODE", ISSUE);
        let found = until("the issue is a task", || {
            let list = http
                .get(&format!("{API}/tasks?assignedAgent=w"))
                .expect(200);
            list["tasks"].as_array()?.first().cloned()
        });
        assert_eq!(found["number"], ISSUE, "{found}");
        let id = found["id"].as_str().expect("a task has an id");
        swarm.becomes(id, "in_progress");
        // A person takes it away; the worker hears of it, and an agent over HTTP ends it.
        http.post(
            &format!("{API}/tasks/{id}/release"),
            &json!({"reason": "mine"}),
        )
        .expect(200);
        let revoked = worker.hear("task_revoked.v1");
        assert_eq!(revoked["issue_number"], ISSUE, "{revoked}");
        http.register("h");
        let claimed = http.claim("h").expect("it is ready again");
        assert_eq!(
            (&claimed["id"], &claimed["epoch"]),
            (&found["id"], &json!(2))
        );
        http.complete("h", id, 2);
        worker.beat("DONE", ISSUE);
        worker.settle();
        let shown = http.task(id);
        assert_eq!(
            shown["assignedAgent"], "h",
            "a late DONE changes nothing: {shown}"
        );
    });
}

#[test]
fn a_task_of_a_silent_worker_is_finished_over_http_and_its_late_result_counts_for_nothing() {
    // agentbus.heartbeat.ttl
    everywhere("[timeouts]\nworker_heartbeat_ttl_seconds = 1\n", |swarm| {
        let mut http = swarm.http();
        http.register("h");
        let mut worker = swarm.hand("w");
        http.create("t");
        let task = worker.assigned();
        worker.accept(&task);
        swarm.becomes("t", "in_progress");
        // It says nothing more; what it hears shows that its director noticed.
        worker.hear("worker_probe.v1");
        let shown = swarm.becomes("t", "ready");
        assert_eq!(shown["retryCount"], 1, "{shown}");
        let claimed = http.claim("h").expect("it is ready again");
        assert_eq!(claimed["epoch"], 2, "{claimed}");
        let mut worker = Peer::worker(swarm.bus(), "w", &[]);
        worker.finish(&task);
        worker.settle();
        assert_eq!(http.task("t")["assignedAgent"], "h");
        http.complete("h", "t", 2);
        assert_eq!(completions(&mut http, "t"), [("h".to_owned(), 2)]);
    });
}

#[test]
fn a_task_of_a_silent_agent_of_http_is_finished_on_the_bus_and_its_late_result_is_refused() {
    everywhere(PLAIN, |swarm| {
        let mut http = swarm.http();
        http.register("h");
        http.create("t");
        assert_eq!(http.claim("h").expect("there is one")["epoch"], 1);
        swarm.restart();
        let mut http = swarm.http();
        let mut worker = swarm.hand("w");
        swarm.let_fall_silent("h");
        let task = worker.assigned();
        assert_eq!((task.task.as_str(), task.epoch, task.attempt), ("t", 2, 2));
        let late = http.post(&format!("{API}/tasks/t/complete"), &completion("h", 1));
        assert_eq!(late.expect(409)["reason"], "task_reassigned");
        worker.finish(&task);
        swarm.becomes("t", "completed");
        assert_eq!(completions(&mut http, "t"), [("w".to_owned(), 2)]);
    });
}

#[test]
fn a_task_that_is_canceled_elsewhere_is_taken_from_its_worker_which_gets_the_next() {
    everywhere(PLAIN, |swarm| {
        let mut http = swarm.http();
        let mut worker = swarm.hand("w");
        http.create("first");
        let first = worker.assigned();
        worker.accept(&first);
        swarm.becomes("first", "in_progress");
        http.create("second");
        http.post(
            &format!("{API}/tasks/first/cancel"),
            &json!({"reason": "no need"}),
        )
        .expect(200);
        let revoked = worker.hear("task_revoked.v1");
        assert_eq!(revoked["issue_number"], first.number, "{revoked}");
        assert_eq!(revoked["epoch"], first.epoch, "{revoked}");
        assert_eq!(revoked["reason"], "canceled", "{revoked}");
        let second = worker.assigned();
        worker.finish(&first);
        worker.finish(&second);
        swarm.becomes("second", "completed");
        assert_eq!(http.task("first")["status"], "canceled");
    });
}

#[test]
fn a_late_result_of_an_earlier_claim_leaves_the_workers_new_claim_alone() {
    everywhere(PLAIN, |swarm| {
        swarm.http().create("t");
        let mut worker = swarm.hand("w");
        let first = worker.assigned();
        let declined =
            json!({"issue_number": first.number, "epoch": first.epoch, "reason": "later"});
        worker
            .say("task_declined.v1", declined)
            .expect("it can be said");
        worker.settle();
        let mut worker = swarm.hand("w");
        let second = worker.assigned();
        assert_eq!((second.number, second.epoch), (first.number, 2));
        worker.finish(&first);
        let revoked = worker.hear("task_revoked.v1");
        assert_eq!(revoked["epoch"], 1, "only the earlier one: {revoked}");
        worker.finish(&second);
        swarm.becomes("t", "completed");
    });
}

#[test]
fn an_offer_that_is_not_answered_goes_to_another_and_the_worker_is_offered_the_next() {
    everywhere("[bus]\naccept_within_seconds = 1\n", |swarm| {
        let mut http = swarm.http();
        http.create("first");
        let mut mute = swarm.hand("mute");
        let first = mute.assigned();
        let revoked = mute.hear("task_revoked.v1");
        assert_eq!(revoked["issue_number"], first.number, "{revoked}");
        let mut other = swarm.hand("other");
        let again = other.assigned();
        assert_eq!((again.number, again.epoch), (first.number, 2));
        other.finish(&again);
        swarm.becomes("first", "completed");
        let next = json!({"id": "next", "title": "next", "audience": ["mute"]});
        http.post(&format!("{API}/tasks"), &next).expect(201);
        let next = mute.assigned();
        mute.finish(&next);
        let shown = swarm.becomes("next", "completed");
        assert_eq!(shown["assignedAgent"], "mute", "{shown}");
    });
}

#[test]
fn an_error_on_the_bus_is_tried_again_over_http_and_one_for_a_person_waits_for_one() {
    // agentbus.error.flags
    everywhere(
        "[retry]\nbackoff_initial_seconds = 0\nbackoff_max_seconds = 0\n",
        |swarm| {
            let mut http = swarm.http();
            http.register("h");
            let mut worker = swarm.hand("w");
            let error = |task: &Assigned, id: &str, escalate: bool| {
                json!({"error": {"error_id": id, "worker_id": "w", "issue_number": task.number, "stage": "VALIDATE",
                "attempt": task.attempt, "error_type": "github_mcp_timeout", "is_transient": true, "should_retry": true,
                "escalate_to_human": escalate, "message": "no answer"}})
            };
            let audience = |id: &str, who: &[&str]| json!({"id": id, "title": id, "audience": who});
            http.post(&format!("{API}/tasks"), &audience("again", &["w", "h"]))
                .expect(201);
            let task = worker.assigned();
            worker.accept(&task);
            swarm.becomes("again", "in_progress");
            // It is held by others when the error comes, so that the worker does not get it back at once.
            http.post(&format!("{API}/tasks"), &audience("next", &["w"]))
                .expect(201);
            let report = error(&task, "e-1", false);
            worker
                .say("worker_error.v1", report.clone())
                .expect("it can be said");
            let mut second = worker.assigned();
            if second.task == "again" {
                // The retry was quicker: give it to the other.
                let declined = json!({"issue_number": second.number, "epoch": second.epoch, "reason": "not me"});
                worker
                    .say("task_declined.v1", declined)
                    .expect("it can be said");
                second = worker.assigned();
            }
            assert_eq!(second.task, "next");
            let shown = swarm.becomes("again", "ready");
            assert_eq!(shown["retryCount"], 1, "{shown}");
            // The same report again is no news.
            worker
                .say("worker_error.v1", report)
                .expect("it can be said");
            worker.settle();
            assert_eq!(http.task("again")["retryCount"], 1);
            let claimed = http.claim("h").expect("it is ready again");
            let epoch = claimed["epoch"].as_u64().expect("a claim has one");
            http.complete("h", "again", epoch);
            worker
                .say("worker_error.v1", error(&second, "e-2", true))
                .expect("it can be said");
            let shown = swarm.becomes("next", "needs_review");
            assert!(shown.to_string().contains("no answer"), "{shown}");
        },
    );
}

#[test]
fn messages_go_from_the_bus_to_every_door_and_back_and_are_acknowledged() {
    everywhere(PLAIN, |swarm| {
        let mut http = swarm.http();
        let mut worker = swarm.hand("w");
        for agent in ["h", "f"] {
            http.register(agent);
        }
        let at = now();
        swarm.by_hand(&format!(
            "INSERT INTO agents (id, name, type, skills, max_task_minutes, last_heartbeat)
             VALUES ('s', 's', 'custom', '[]', 60, '{at}')"
        ));
        until("the agent of SQL is known", || {
            (http.get(&format!("{API}/agents/s")).status == 200).then_some(())
        });
        to_the_bus(swarm, &mut worker);
        from_the_bus(swarm, &mut worker);
    });
}

/// From HTTP, SQL, a file and the bus itself.
fn to_the_bus(swarm: &Swarm, worker: &mut Peer) {
    let mut http = swarm.http();
    let message = |id: &str| json!({"id": id, "to": "w", "type": "info.discovery", "payload": {"n": id}, "ackRequired": true});
    let body = json!({"agentId": "h", "message": message("by-http")});
    http.post(&format!("{API}/messages"), &body).expect(200);
    swarm.by_hand(
        "INSERT INTO messages (id, type, from_agent, to_agent, payload, ack_required)
         VALUES ('by-sql', 'info.discovery', 's', 'w', '{\"n\":\"by-sql\"}', 1)",
    );
    let body = json!({"agentId": "f", "message": message("by-file")});
    let sent = swarm.by_file("send", "SEND_MESSAGE", body);
    assert_eq!(sent["success"], true, "{sent}");
    let mut other = swarm.hand("w2");
    other
        .say("agent_message.v1", mail("by-bus", "w2", "w"))
        .expect("it can be said");
    let kept = other.hear("agent_message_ack.v1");
    assert_eq!(kept["state"], "accepted", "{kept}");
    for (id, from) in [
        ("by-http", "h"),
        ("by-sql", "s"),
        ("by-file", "f"),
        ("by-bus", "w2"),
    ] {
        let heard = worker.hear_such("agent_message.v1", |mail| mail["message_id"] == id);
        assert_eq!(
            (&heard["from"], &heard["body"]["n"]),
            (&json!(from), &json!(id)),
            "{heard}"
        );
        assert_eq!(heard["ack_required"], true, "{heard}");
        swarm.delivery_becomes(id, "w", "delivered");
        worker
            .say("agent_message_ack.v1", json!({"message_id": id}))
            .expect("it can be said");
        swarm.delivery_becomes(id, "w", "acknowledged");
    }
}

/// To HTTP, SQL and a file; each says that it has it.
fn from_the_bus(swarm: &Swarm, worker: &mut Peer) {
    let mut http = swarm.http();
    for to in ["h", "s", "f"] {
        worker
            .say("agent_message.v1", mail(&format!("to-{to}"), "w", to))
            .expect("it can be said");
        let kept = worker.hear("agent_message_ack.v1");
        assert_eq!(kept["state"], "accepted", "{kept}");
    }
    let read = http.get(&format!("{API}/messages?agentId=h")).expect(200);
    assert_eq!(read["messages"][0]["id"], "to-h", "{read}");
    assert_eq!(read["messages"][0]["payload"]["n"], "to-h", "{read}");
    let asked = json!({"agentId": "f"});
    let read = swarm.by_file("receive", "RECEIVE_MESSAGES", asked);
    assert_eq!(read["messages"][0]["id"], "to-f", "{read}");
    for agent in ["h", "f"] {
        let path = format!("{API}/messages/to-{agent}/ack");
        http.post(&path, &json!({"agentId": agent})).expect(200);
    }
    let at = now();
    swarm.by_hand(&format!(
        "UPDATE messages SET delivered_at = '{at}' WHERE to_agent = 's' AND id = 'to-s' AND delivered_at IS NULL"
    ));
    swarm.delivery_becomes("to-s", "s", "delivered");
    swarm.by_hand(&format!(
        "UPDATE messages SET acknowledged_at = '{at}', acknowledged_by = 's' WHERE to_agent = 's' AND id = 'to-s'"
    ));
    for agent in ["h", "s", "f"] {
        swarm.delivery_becomes(&format!("to-{agent}"), agent, "acknowledged");
    }
}

fn mail(id: &str, from: &str, to: &str) -> Value {
    json!({"message_id": id, "from": from, "to": to, "type": "info.discovery", "body": {"n": id}, "ack_required": true})
}

#[test]
fn an_agent_with_two_doors_is_one_and_ends_at_one_what_it_began_at_the_other() {
    // agentbus.reconnect.continuation
    everywhere(PLAIN, |swarm| {
        let mut http = swarm.http();
        http.register("both");
        http.create("t");
        assert_eq!(http.claim("both").expect("there is one")["epoch"], 1);
        let number = http.task("t")["number"].as_u64().expect("it has one");
        let mut worker = swarm.hand("both");
        worker.beat("DONE", number);
        swarm.becomes("t", "completed");
        http.create("u");
        let given = |worker: &mut Peer, task: &str| {
            Assigned::of(&worker.hear_such("task_assigned.v1", |given| given["task_id"] == task))
        };
        let task = given(&mut worker, "u");
        http.complete("both", "u", task.epoch);
        // It is idle again, and so it is given the next.
        http.create("v");
        given(&mut worker, "v");
        let list = http.get(&format!("{API}/agents")).expect(200);
        assert_eq!(list["agents"].as_array().map(Vec::len), Some(1), "{list}");
    });
}

#[test]
fn operators_see_workers_agents_of_http_and_the_queue() {
    // agentbus.overview.operator_broadcast, agentbus.snapshot.queue
    everywhere(PLAIN, |swarm| {
        let mut http = swarm.http();
        http.register("h");
        http.create("held");
        http.claim("h").expect("there is one");
        http.create("free");
        let numbers = ["held", "free"].map(|task| http.task(task)["number"].clone());
        let mut worker = Peer::worker(swarm.bus(), "w", &[]);
        worker
            .say("heartbeat.v1", state("CODE", 21))
            .expect("it can be said");
        worker.settle();
        let mut operator = Peer::operator(swarm.bus(), "o");
        let is_whole = |snapshot: &Value| {
            let workers = snapshot["workers"].as_array();
            workers.is_some_and(|workers| workers.len() == 2)
        };
        let snapshot = operator.hear_such("project_state_snapshot.v1", is_whole);
        let entry = |id: &str| {
            let mut workers = snapshot["workers"].as_array().into_iter().flatten();
            let found = workers.find(|entry| entry["worker_id"] == id);
            found.unwrap_or_else(|| panic!("no {id} in {snapshot}"))
        };
        assert_eq!(entry("w")["stage"], "CODE", "{snapshot}");
        assert_eq!(entry("w")["connected"], true, "{snapshot}");
        assert!(
            entry("w").to_string().contains("external #21"),
            "{snapshot}"
        );
        assert_eq!(entry("h")["issue_number"], numbers[0], "{snapshot}");
        assert_eq!(entry("h")["connected"], false, "{snapshot}");
        let queue = &snapshot["queue"];
        assert_eq!(
            queue["claimed_issue_numbers"],
            json!([numbers[0]]),
            "{queue}"
        );
        assert_eq!(
            queue["eligible_issue_numbers"],
            json!([numbers[1]]),
            "{queue}"
        );
        worker.beat("VALIDATE", 21);
        let relayed = operator.hear("heartbeat.v1");
        assert_eq!(relayed["state"]["stage"], "VALIDATE", "{relayed}");
        http.create("more");
        let queued = |snapshot: &Value| snapshot["queue"]["eligible_total"] == 2;
        operator.hear_such("project_state_snapshot.v1", queued);
    });
}

/// Who completed a task, under which claim.
fn completions(http: &mut Client, task: &str) -> Vec<(String, u64)> {
    let events = http.events();
    let of_task = |event: &&Value| event["type"] == "task_completed" && event["task"] == task;
    let deed = |event: &Value| {
        let agent = event["agent"].as_str().unwrap_or_default().to_owned();
        (agent, event["epoch"].as_u64().unwrap_or_default())
    };
    events.iter().filter(of_task).map(deed).collect()
}
