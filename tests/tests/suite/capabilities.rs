//! A capability of a node that is a PostgreSQL with two coordinators: whatever one of them does, the other goes on with.

use std::fs;

use serde_json::{Value, json};
use switchboard_test_cluster::Cluster;
use switchboard_tests::{Client, Hub, Project, Request, completion, until};

use crate::exchange::free;

const CAPABILITY: &str = "cap.fs.diff-apply";

fn manifest(version: &str) -> Value {
    let skill = json!({ "name": "execute-fs", "version": "1.0.0", "path": "/skills/execute-fs" });
    json!({
        "capabilityId": CAPABILITY, "name": "Filesystem Diff Apply", "version": version,
        "ownerAgentId": "ann", "defaultEtaSeconds": 900, "eligibleAgentIds": ["ben"],
        "delegationSkillRef": skill, "executorSkillRef": skill,
        "contractSchemaRef": "schema://x/1",
        "contractSchema": { "type": "object", "required": ["patch"] },
    })
}

/// On the machine of one coordinator only: the other has no such skill.
fn install(project: &Project) {
    let dir = project.root().join(".switchboard/skills/execute-fs");
    fs::create_dir_all(&dir).expect("a directory can be made");
    let skill = json!({ "name": "execute-fs", "version": "1.0.0", "smoke": "true" });
    fs::write(dir.join("skill.json"), skill.to_string()).expect("a file can be written");
}

fn capability(client: &mut Client) -> Option<Value> {
    let shown = client.get(&format!("/runtime/v1/capabilities/{CAPABILITY}"));
    (shown.status == 200).then(|| shown.json()["capability"].take())
}

/// From an agent of another node, for whoever may do it; until that one knows that they are there.
fn ask(client: &mut Client, n: usize) {
    let task = json!({
        "kind": "task_create", "sourceAgentId": "bob", "eventId": format!("evt_{n}"),
        "payload": {
            "taskId": format!("t{n}"), "title": "do it", "requesterAgentId": "bob",
            "requiredCapabilities": [CAPABILITY],
        },
    });
    until("it is routed", || {
        let answer = client.post("/runtime/v1/events", &task);
        (answer.status == 201).then_some(())
    });
}

fn claimed(client: &mut Client, agent: &str) -> u64 {
    let task = until("it is routed", || client.claim(agent));
    task["epoch"].as_u64().expect("an epoch")
}

fn completed(client: &mut Client, agent: &str, (n, epoch): (usize, u64), output: Value) -> Value {
    let mut body = completion(agent, epoch);
    body["result"]["output"] = output;
    let answer = client.post(&format!("/api/v1/tasks/t{n}/complete"), &body);
    answer.expect(200)["status"].take()
}

#[test]
fn a_capability_of_a_node_of_two_coordinators_is_the_same_at_both() {
    let Some(server) = Cluster::shared("capabilities of a node that is a PostgreSQL") else {
        return;
    };
    let database = server.create_database();
    let projects = [
        Project::on(&database.url).at(free()),
        Project::on(&database.url).at(free()),
        Project::new().at(free()),
    ];
    install(&projects[0]);
    let hubs: Vec<Hub> = projects.iter().map(Project::start).collect();
    let [mut one, mut two, mut far] = [0, 1, 2].map(|at: usize| hubs[at].client());
    one.register("ann");
    two.register("ben");
    far.register("bob");
    let invite = two.post("/runtime/v1/invites", &json!({})).expect(201);
    let join = json!({
        "url": format!("http://{}", hubs[1].addr()), "inviteToken": invite["inviteToken"],
        "endpoint": format!("http://{}", hubs[2].addr()),
    });
    far.post("/runtime/v1/nodes/join", &join).expect(200);

    // Published at the one that has the skill, and at once what the other one knows, grants and routes by.
    let failed = two.post("/runtime/v1/capabilities", &manifest("1.0.0"));
    failed.expect_error(409, "publish_failed");
    assert_eq!(failed.json()["reason"], "install", "{}", failed.text());
    let published = one.post("/runtime/v1/capabilities", &manifest("1.0.0"));
    published.expect(201);
    let known = capability(&mut two).expect("it is published");
    assert_eq!(known["catalog"]["status"], "active");
    assert_eq!(known["index"]["eligibleAgentIds"], json!(["ann", "ben"]));
    until("the other node knows it", || {
        let there = capability(&mut far)?;
        (there["index"] == known["index"]).then_some(())
    });
    let control = two.get("/runtime/v1/control").expect(200);
    assert!(
        control
            .to_string()
            .contains(&format!("capabilities.index.{CAPABILITY}"))
    );

    // Taken at one and finished at the other, by the contract that both know.
    ask(&mut far, 1);
    let epoch = claimed(&mut two, "ben");
    let said = completed(&mut one, "ben", (1, epoch), json!({ "diff": 1 }));
    assert_eq!(said, "needs_review");
    let review = until("somebody is to look at it", || {
        let open = two.get("/runtime/v1/reviews").expect(200);
        open["reviews"].as_array()?.first().cloned()
    });
    assert_eq!(review["failureClass"], "contract_violation");
    two.post("/api/v1/tasks/t1/reject", &json!({ "reason": "no patch" }))
        .expect(200);
    let epoch = claimed(&mut one, "ann");
    let said = completed(&mut two, "ann", (1, epoch), json!({ "patch": "" }));
    assert_eq!(said, "completed");
    until("its requester's node hears of it", || {
        let ended = far.get("/runtime/v1/orders?ended=true").expect(200);
        let mut orders = ended["orders"].as_array().expect("a list").iter();
        orders
            .find(|order| order["eventId"] == "evt_1" && order["state"] == "done")
            .map(drop)
    });

    // A higher version at the one, withdrawn at the other; nobody is given its tasks any more.
    one.post("/runtime/v1/capabilities", &manifest("1.1.0"))
        .expect(201);
    let lower = one.post("/runtime/v1/capabilities", &manifest("1.0.5"));
    lower.expect_error(400, "invalid_operation");
    let path = format!("/runtime/v1/capabilities/{CAPABILITY}");
    let withdrawn = two.send(&Request::new("DELETE", path));
    withdrawn.expect("it is answered").expect(200);
    let after = capability(&mut one).expect("it is known");
    assert_eq!(after["catalog"]["status"], "retired");
    assert_eq!(after["catalog"]["version"], "1.1.0");
    let ann = one.get("/api/v1/agents/ann").expect(200);
    assert_eq!(ann["agent"]["capabilities"]["skills"], json!([]));
    drop((one, two, far));
    for mut hub in hubs {
        assert!(hub.runs());
        hub.stop();
    }
}
