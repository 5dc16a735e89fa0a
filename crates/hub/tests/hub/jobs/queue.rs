//! Phases in the queue, done in every dialect, and what becomes of the job when they fail.

use serde_json::{Value, json};
use switchboard_core::job::{JobSpec, JobState, RunBy};
use switchboard_core::verb::job::Decision;
use switchboard_core::{AgentId, JobAction};

use super::{Kit, spec};
use crate::broker::kit::{Client as Socket, listens};
use crate::bus::kit::{ASSIGN, Peer, error};
use crate::by_hand::{File, written};
use crate::external::kit::{ALL, Far, text};
use crate::harness::{Client, result, start_as};

/// Who does the phases of a job.
enum Doer {
    Http,
    Sql,
    Bus(Vec<Peer>),
    Roles(Vec<Socket>),
    /// From elsewhere, each with its access token.
    Far(Vec<(Far, String)>),
}

/// What one of them says in the end.
#[derive(Clone, Copy)]
enum Says {
    /// A response with this action.
    Response(JobAction),
    /// Nothing but a summary.
    Summary,
    Failure,
}

struct Scene {
    kit: Kit,
    doer: Doer,
    /// A client's own connection to the file.
    hand: Option<rusqlite::Connection>,
    _file: Option<File>,
}

/// By the names of roles, so that each dialect has them.
const AGENTS: [&str; 2] = ["builder", "oracle"];

async fn scene(dialect: &str) -> Scene {
    let (mut hand, mut kept) = (None, None);
    let hub = match dialect {
        "sql" => {
            let file = File::new();
            let hub = file.serve_as(Box::new(file.engine()), |_| {}).await;
            (hand, kept) = (Some(file.client()), Some(file));
            hub
        }
        _ => {
            start_as(|config| {
                config.bus.enabled = dialect == "bus";
                config.bus.memory.enabled = false;
                if dialect == "squidrun" {
                    listens(config);
                }
            })
            .await
        }
    };
    let mut doer = match dialect {
        "sql" => Doer::Sql,
        "bus" => Doer::Bus(Vec::new()),
        "squidrun" => Doer::Roles(Vec::new()),
        "external" => Doer::Far(Vec::new()),
        _ => Doer::Http,
    };
    for agent in AGENTS {
        match &mut doer {
            Doer::Http => hub.client.register(agent, &[]).await,
            Doer::Sql => {
                let sql = format!("INSERT INTO agents(id, name) VALUES ('{agent}', '{agent}')");
                written(hand.as_ref().unwrap(), &sql);
            }
            // One at a time, so that it is known who is offered what.
            Doer::Bus(_) => {}
            Doer::Roles(roles) => roles.push(Socket::role(&hub, agent).await),
            Doer::Far(all) => {
                let far = Far::new(agent, all.len() as u8 + 1);
                let tokens = far.admitted(hub.client, ALL).await;
                all.push((far, text(&tokens, "accessToken")));
            }
        }
    }
    Scene {
        kit: Kit { hub },
        doer,
        hand,
        _file: kept,
    }
}

fn queued() -> JobSpec {
    JobSpec {
        run_by: RunBy::Queue,
        ..spec("j")
    }
}

fn response(action: JobAction) -> Value {
    json!({ "action": action.as_str(), "evidence_files": ["made.txt"], "summary_for_supervisor": "So it went." })
}

fn brought(says: Says) -> Value {
    let mut brought = result("So it went.");
    if let Says::Response(action) = says {
        brought["response"] = response(action);
    }
    brought
}

impl Scene {
    /// The task that is the job's phase now.
    async fn task(&self) -> (String, u64) {
        let job = self
            .kit
            .until("j", |job| job.task.is_some() && job.run.is_none())
            .await;
        let task = job.task.unwrap();
        (task.id.to_string(), task.number)
    }

    /// An agent does the job's present phase.
    async fn does(&mut self, agent: usize, says: Says) {
        let (task, number) = self.task().await;
        let (client, name) = (self.kit.hub.client, AGENTS[agent]);
        match &mut self.doer {
            Doer::Http => {
                claims(client, name, &task).await;
                ends(client, name, &task, says).await;
            }
            Doer::Sql => {
                let hand = self.hand.as_ref().unwrap();
                written(
                    hand,
                    &format!(
                        "UPDATE tasks SET status = 'claimed', assigned_agent = '{name}', epoch = epoch + 1 WHERE id = '{task}'"
                    ),
                );
                let ended = match says {
                    Says::Failure => "status = 'failed', last_error = 'no disk'".to_owned(),
                    Says::Response(_) | Says::Summary => {
                        format!("status = 'completed', result = '{}'", brought(says))
                    }
                };
                written(
                    hand,
                    &format!("UPDATE tasks SET {ended} WHERE id = '{task}'"),
                );
            }
            Doer::Bus(peers) => {
                let mut peer = Peer::worker(&self.kit.hub, name, ASSIGN).await;
                let assigned = peer.take_on(number).await;
                match says {
                    Says::Failure => {
                        let mut failed = error("e", number, (false, false, false));
                        failed["error"]["worker_id"] = json!(name);
                        peer.send("worker_error.v1", failed).await
                    }
                    Says::Response(_) | Says::Summary => {
                        let mut given = json!({ "summary": "So it went.", "files_created": [], "files_modified": ["a.rs"], "files_deleted": [] });
                        given["response"] = brought(says)["response"].take();
                        if given["response"].is_null() {
                            given.as_object_mut().unwrap().remove("response");
                        }
                        let result = json!({ "issue_number": number, "epoch": assigned["epoch"], "result": given });
                        peer.send("task_result.v1", result).await
                    }
                };
                peer.fence().await;
                peers.push(peer);
            }
            Doer::Far(all) => {
                let (far, token) = &all[agent];
                let claim = json!({ "taskId": task });
                let claimed = far.invoke(client, token, "ansible_claim_task", claim).await;
                let epoch = &claimed.expect(200)["result"]["task"]["epoch"];
                let done =
                    json!({ "taskId": task, "resultSummary": "So it went.", "epoch": epoch });
                let done = far
                    .invoke(client, token, "ansible_complete_task", done)
                    .await;
                done.expect(200);
            }
            Doer::Roles(roles) => {
                claims(client, name, &task).await;
                let word = match says {
                    Says::Failure => "FAILED",
                    Says::Response(_) | Says::Summary => "DONE",
                };
                let text = format!("[{word} #{number}] So it went.");
                roles[agent]
                    .say("architect", &format!("m{number}"), &text)
                    .await;
            }
        }
    }

    async fn interactions(&self) -> Vec<(String, JobAction, String)> {
        let all = self.kit.interactions("j").await;
        all.into_iter()
            .map(|one| (one.by, one.action, one.summary))
            .collect()
    }
}

async fn claims(client: Client, agent: &str, task: &str) {
    let body = json!({ "agentId": agent, "taskId": task });
    let claimed = client.post("/api/v1/tasks/claim", body).await.expect(200);
    assert_eq!(claimed["success"], true, "{claimed}");
}

async fn ends(client: Client, agent: &str, task: &str, says: Says) {
    let path = |step: &str| format!("/api/v1/tasks/{task}/{step}");
    match says {
        Says::Failure => {
            let failure =
                json!({ "type": "task_error", "message": "no disk", "recoverable": false });
            let body = json!({ "agentId": agent, "failure": failure });
            client.post(&path("fail"), body).await.expect(200);
        }
        Says::Response(_) | Says::Summary => {
            let body = json!({ "agentId": agent, "taskId": task, "result": brought(says) });
            client.post(&path("complete"), body).await.expect(200);
        }
    }
}

#[tokio::test]
async fn a_phase_is_done_by_one_agent_and_reviewed_by_another_in_every_dialect() {
    for dialect in ["http", "sql", "bus", "squidrun", "external"] {
        let mut scene = scene(dialect).await;
        scene.kit.run(queued()).await;
        // These only have words.
        let says = match dialect {
            "squidrun" | "external" => Says::Summary,
            _ => Says::Response(JobAction::Completed),
        };
        scene.does(0, says).await;
        scene
            .kit
            .until("j", |job| job.state == JobState::ReviewRequired)
            .await;
        let (review, _) = scene.task().await;
        let barred = scene
            .kit
            .hub
            .client
            .get(&format!("/api/v1/tasks/{review}/why?agentId=builder"))
            .await;
        assert!(
            barred.expect(200)["reasons"].to_string().contains("barred"),
            "{dialect}"
        );
        scene.does(1, says).await;
        scene.kit.is("j", JobState::Success).await;
        let told = "So it went.".to_owned();
        let expected = AGENTS.map(|agent| (agent.to_owned(), JobAction::Completed, told.clone()));
        assert_eq!(scene.interactions().await, expected, "{dialect}");
        scene.kit.hub.running.shutdown().await;
    }
}

#[tokio::test]
async fn a_phase_that_fails_for_good_waits_for_the_steward_in_every_dialect() {
    for dialect in ["http", "sql", "bus", "squidrun"] {
        let mut scene = scene(dialect).await;
        scene.kit.run(queued()).await;
        scene.does(0, Says::Failure).await;
        scene.kit.is("j", JobState::InterventionRequired).await;
        let all = scene.kit.interactions("j").await;
        assert_eq!(
            (all.len(), all[0].action),
            (1, JobAction::Stuck),
            "{dialect}"
        );
        assert!(all[0].error.is_some(), "{dialect}");
        scene.kit.hub.running.shutdown().await;
    }
}

#[tokio::test]
async fn what_an_agent_of_the_queue_responds_moves_the_job() {
    for (action, state) in [
        (JobAction::Stuck, JobState::InterventionRequired),
        (JobAction::Retry, JobState::Pending),
    ] {
        let mut scene = scene("http").await;
        scene.kit.run(queued()).await;
        scene.does(0, Says::Response(action)).await;
        let job = scene.kit.until("j", |job| job.last_sequence == 1).await;
        assert_eq!(job.state, state);
        if state == JobState::Pending {
            let (task, _) = scene.task().await;
            assert_eq!(task, "job:j:1:2", "under a new id");
        }
        scene.kit.hub.running.shutdown().await;
    }
}

#[tokio::test]
async fn a_stopped_job_takes_its_task_from_whoever_holds_it() {
    let scene = scene("http").await;
    scene.kit.run(queued()).await;
    let (task, _) = scene.task().await;
    let client = scene.kit.hub.client;
    claims(client, "builder", &task).await;
    let running = scene.kit.is("j", JobState::Running).await;
    let by = running.run.map(|run| AgentId::from(run.by));
    assert_eq!(by, Some("builder".into()));
    scene.kit.decide("j", Decision::Suspend).await;
    let progress = json!({ "phase": "testing", "percentComplete": 40, "description": "on it" });
    let body = json!({ "agentId": "builder", "progress": progress });
    let told = client
        .post(&format!("/api/v1/tasks/{task}/progress"), body)
        .await;
    assert_eq!(told.expect(200)["continue"], false);
    let shown = client
        .get(&format!("/api/v1/tasks/{task}"))
        .await
        .expect(200);
    assert_eq!(shown["task"]["status"], "canceled");
    scene.kit.decide("j", Decision::Resume).await;
    let (next, _) = scene.task().await;
    assert_ne!(next, task);
    scene.kit.hub.running.shutdown().await;
}

#[tokio::test]
async fn a_request_that_no_task_can_hold_is_told_to_the_steward() {
    let scene = scene("http").await;
    let mut long = queued();
    long.phases[0].worker_instructions =
        "x".repeat(switchboard_core::limits::DESCRIPTION_BYTES_MAX);
    scene.kit.run(long).await;
    scene.kit.is("j", JobState::InterventionRequired).await;
    let why = scene.kit.interactions("j").await.remove(0).error;
    assert!(why.is_some_and(|why| why.contains("shorten the phase")));
    scene.kit.hub.running.shutdown().await;
}
