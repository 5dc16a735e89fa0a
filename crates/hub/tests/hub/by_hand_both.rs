//! What Jetpack's own programs do by SQL, on a file and on PostgreSQL: the same statements, and the same comes of them.

use rusqlite::Connection;
use serde_json::{Value, json};
use tokio_postgres::{Client as Sql, SimpleQueryMessage};

use crate::by_hand::{Mixed, all};
use crate::by_hand_postgres::{Swarm, connect};
use crate::harness::{Client, TestHub};
use crate::world::eventually;

/// A hub, and a program that knows nothing but the public tables.
enum World {
    File(Mixed),
    Postgres(Swarm, Sql),
}

impl World {
    /// Those that can be had here.
    async fn all(what: &str) -> Vec<World> {
        let mut worlds = vec![World::File(Mixed::start().await)];
        if let Some(swarm) = Swarm::new(what, 1).await {
            let sql = connect(&swarm.database.url).await;
            worlds.push(World::Postgres(swarm, sql));
        }
        worlds
    }

    fn hub(&self) -> &TestHub {
        match self {
            World::File(mixed) => &mixed.hub,
            World::Postgres(swarm, _) => &swarm.hubs[0],
        }
    }

    fn http(&self) -> Client {
        self.hub().client
    }

    /// Runs a statement; how many rows it counts.
    async fn run(&self, sql: &str) -> Result<u64, String> {
        match self {
            World::File(mixed) => run(&mixed.hand, sql),
            World::Postgres(_, client) => {
                let ran = client.execute(sql, &[]).await;
                ran.map_err(|error| error.as_db_error().unwrap().message().to_owned())
            }
        }
    }

    /// The same, and waits until the hub has taken it in.
    async fn sql(&self, sql: &str) -> u64 {
        let counted = self.run(sql).await;
        let counted = counted.unwrap_or_else(|error| panic!("{error}: {sql}"));
        self.taken_in().await;
        counted
    }

    async fn taken_in(&self) {
        eventually(async || self.rows("SELECT n FROM sb_hand").await.is_empty()).await;
    }

    /// The rows of a query, as text.
    async fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        let client = match self {
            World::File(mixed) => return all(&mixed.hand, sql),
            World::Postgres(_, client) => client,
        };
        let messages = client.simple_query(sql).await.unwrap().into_iter();
        let rows = messages.filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let text = |value: Option<&str>| value.unwrap_or("null").to_owned();
        rows.map(|row| (0..row.len()).map(|at| text(row.get(at))).collect())
            .collect()
    }

    async fn one(&self, sql: &str) -> String {
        self.rows(sql).await.swap_remove(0).swap_remove(0)
    }

    async fn get(&self, path: &str) -> Value {
        self.http().get(&format!("/api/v1{path}")).await.expect(200)
    }

    async fn stop(self) {
        match self {
            World::File(mixed) => mixed.stop().await,
            World::Postgres(swarm, _) => swarm.stop().await,
        }
    }
}

fn run(hand: &Connection, sql: &str) -> Result<u64, String> {
    let changed = hand.execute(sql, []).map_err(|error| error.to_string())?;
    Ok(changed as u64)
}

const AGENTS: &str = "INSERT INTO agents(id, name) VALUES ('s1', 's1'), ('s2', 's2')";
/// Longer than any lease lasts.
const LATER: &str = "2999-01-01T00:00:00.000Z";

fn lease(path: &str, agent: &str) -> String {
    format!(
        "INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('{path}', '{agent}', '{LATER}')
         ON CONFLICT (file_path) DO UPDATE SET expires_at = excluded.expires_at, renewed_count = leases.renewed_count + 1
         WHERE leases.agent_id = excluded.agent_id"
    )
}

#[tokio::test]
async fn a_lease_is_taken_on_any_ordinary_path_and_keeps_its_spelling() {
    for world in World::all("paths of leases").await {
        world.sql(AGENTS).await;
        let root = world.hub().home.path().display().to_string();
        let absolute = format!("{root}/abs/./x.rs");
        let table = [
            ("./src/x.rs", "src/x.rs", "src//x.rs"),
            ("dir/", "dir", "dir/below"),
            (r"win\y.rs", "win/y.rs", "./win/y.rs"),
            ("up/a/../b", "up/b", "up/b/"),
            (&absolute, "abs/x.rs", "abs"),
            ("app/**", "app/**", ""),
            ("./lib/*.rs", "lib/*.rs", ""),
        ];
        for (written, normal, other) in table {
            assert_eq!(world.sql(&lease(written, "s1")).await, 1, "{written}");
            let listed = world.get("/leases").await;
            assert_eq!(listed["leases"][0]["filePath"], normal);
            let row = format!("SELECT renewed_count FROM leases WHERE file_path = '{written}'");
            assert_eq!(world.rows(&row).await, [["0"]], "{written}");
            // Another spelling of it, or what it covers, is refused at once.
            if !other.is_empty() {
                let refused = world.run(&lease(other, "s2")).await.unwrap_err();
                assert!(refused.contains("covers this path"), "{refused}");
            }
            world.sql(&lease(written, "s1")).await;
            assert_eq!(world.rows(&row).await, [["1"]], "{written} is renewed");
            let gone =
                format!("DELETE FROM leases WHERE file_path = '{written}' AND agent_id = 's1'");
            assert_eq!(world.sql(&gone).await, 1, "{written}");
            assert_eq!(world.get("/leases").await["leases"], json!([]));
        }
        for outside in ["../x", "a/../../x", "/etc/passwd", &format!("{root}x/y")] {
            let refused = world.run(&lease(outside, "s1")).await.unwrap_err();
            assert!(refused.contains("outside the project"), "{refused}");
        }
        world.stop().await;
    }
}

#[tokio::test]
async fn a_path_has_one_lease_however_it_is_spelled() {
    for world in World::all("spellings of leases").await {
        world.sql(AGENTS).await;
        for spelling in ["./a", "a", "a/", "b/../a"] {
            world.sql(&lease(spelling, "s1")).await;
            let rows = world.rows("SELECT file_path FROM leases").await;
            assert_eq!(rows, [[spelling]]);
        }
        let ours = json!({"agentId": "s1", "filePath": "a", "durationMs": 60_000, "taskId": null});
        let extended = world.http().post("/api/v1/leases/acquire", ours).await;
        assert_eq!(extended.expect(200)["success"], true);
        assert_eq!(world.one("SELECT file_path FROM leases").await, "b/../a");
        // A glob waits until it is taken in; then it is held against what others have.
        for (glob, stays) in [
            ("./*", false),
            ("?/x", false),
            ("c/{d,e}", true),
            ("c/[*", false),
        ] {
            world.sql(&lease(glob, "s2")).await;
            let there = format!("SELECT file_path FROM leases WHERE file_path = '{glob}'");
            assert_eq!(world.rows(&there).await.len(), usize::from(stays), "{glob}");
        }
        let released = world.sql("DELETE FROM leases WHERE agent_id = 's1'").await;
        assert_eq!(
            (
                released,
                world.get("/leases").await["leases"]
                    .as_array()
                    .unwrap()
                    .len()
            ),
            (1, 1)
        );
        world.stop().await;
    }
}

fn task(id: &str) -> String {
    format!("INSERT INTO tasks(id, title, status) VALUES ('{id}', '{id}', 'ready')")
}

fn set(id: &str, status: &str) -> String {
    format!("UPDATE tasks SET status = '{status}' WHERE id = '{id}'")
}

#[tokio::test]
async fn by_hand_in_no_agents_name_a_person_acts() {
    for world in World::all("what people do by hand").await {
        world.sql(AGENTS).await;
        for id in ["a", "b", "c"] {
            world.sql(&task(id)).await;
        }
        let waits = "INSERT INTO tasks(id, title, dependencies) VALUES ('d', 'd', '[\"c\"]')";
        world.sql(waits).await;
        let shown = async |id: &str| {
            let shown = world.get(&format!("/tasks/{id}")).await;
            let word = |name: &str| shown["task"][name].as_str().unwrap_or("-").to_owned();
            (word("status"), word("assignedAgent"))
        };
        let of = |status: &str, agent: &str| (status.to_owned(), agent.to_owned());
        // Nobody claims in nobody's name, and nobody is missed who was not named.
        let refused = world.run(&set("a", "claimed")).await.unwrap_err();
        assert!(refused.contains("a claim must name its agent"), "{refused}");
        let refused = world.run(&set("a", "needs_review")).await.unwrap_err();
        assert!(
            refused.contains("not allowed") && !refused.contains("sb_"),
            "{refused}"
        );
        assert_eq!(world.sql(&set("a", "in_progress")).await, 1);
        assert_eq!(shown("a").await, of("in_progress", "steward"));
        world.sql(&set("a", "completed")).await;
        assert_eq!(shown("a").await.0, "completed");
        world.sql(&set("b", "completed")).await;
        assert_eq!(shown("b").await.0, "completed");
        world.sql(&set("d", "ready")).await;
        assert_eq!(shown("d").await.0, "ready");
        world.sql(&set("c", "failed")).await;
        assert_eq!(shown("c").await.0, "failed");
        // On one that is held it is the holder's.
        let claim = "UPDATE tasks SET status = 'claimed', assigned_agent = 's1' WHERE id = 'd'";
        world.sql(claim).await;
        world.sql(&set("d", "completed")).await;
        assert_eq!(shown("d").await, of("completed", "s1"));
        let agents = world
            .rows("SELECT id, tasks_completed FROM agents ORDER BY id")
            .await;
        assert_eq!(agents, [["s1", "1"], ["s2", "0"]]);
        world.stop().await;
    }
}

#[tokio::test]
async fn a_delete_counts_its_rows() {
    for world in World::all("deletes that count").await {
        world.sql(AGENTS).await;
        for id in ["a", "b"] {
            world.sql(&task(id)).await;
        }
        assert_eq!(world.sql("DELETE FROM tasks").await, 2);
        let tasks = world.rows("SELECT id, status FROM tasks ORDER BY id").await;
        assert_eq!(tasks, [["a", "canceled"], ["b", "canceled"]]);
        let sent = "INSERT INTO messages(id, type, from_agent, to_agent) VALUES ('m', 'custom', 's1', 's2'), ('e', 'custom', 's1', NULL)";
        world.sql(sent).await;
        let mine = "DELETE FROM messages WHERE to_agent = 's2' AND delivered_at IS NULL";
        assert_eq!(world.sql(mine).await, 2, "one to it, and a copy");
        assert_eq!(world.sql(mine).await, 0);
        let unread = world.http().get("/api/v1/messages?agentId=s2").await;
        assert_eq!(unread.expect(200)["messages"], json!([]));
        assert_eq!(world.sql("DELETE FROM agents WHERE id = 's1'").await, 1);
        world.stop().await;
    }
}

#[tokio::test]
async fn a_broadcast_is_received_once() {
    for world in World::all("a broadcast by hand").await {
        world.sql(AGENTS).await;
        let unread = "SELECT id FROM messages WHERE (to_agent = 's2' OR to_agent IS NULL) AND delivered_at IS NULL";
        world.run("BEGIN").await.unwrap();
        let sent = "INSERT INTO messages(id, type, from_agent) VALUES ('m', 'custom', 's1')";
        world.run(sent).await.unwrap();
        assert!(world.rows(unread).await.is_empty(), "not as everyone's row");
        world.run("COMMIT").await.unwrap();
        world.taken_in().await;
        assert_eq!(world.rows(unread).await.len(), 1, "but as its own");
        world.stop().await;
    }
}

#[tokio::test]
async fn a_heartbeat_counts_once_and_keeps_the_current_task() {
    for world in World::all("heartbeats by hand").await {
        world.sql(AGENTS).await;
        world.sql(&task("a")).await;
        let claim = "UPDATE tasks SET status = 'claimed', assigned_agent = 's1' WHERE id = 'a'";
        world.sql(claim).await;
        let update = |set: &str| format!("UPDATE agents SET {set} WHERE id = 's1'");
        let beat = |n: u32| {
            format!(
                "last_heartbeat = '2026-01-01T00:00:0{n}.000Z', heartbeat_count = heartbeat_count + 1"
            )
        };
        let row = "SELECT heartbeat_count, current_task_id FROM agents WHERE id = 's1'";
        let more = [
            "",
            ", status = 'busy'",
            ", current_task_id = 'a'",
            ", current_task_id = NULL",
        ];
        for (n, more) in (1..).zip(more) {
            world.sql(&update(&format!("{}{more}", beat(n)))).await;
            assert_eq!(world.rows(row).await, [[&*n.to_string(), "a"]], "{more}");
        }
        // In two statements, as some programs do it.
        world.run("BEGIN").await.unwrap();
        let at_work = "status = 'error', current_task_id = 'a', current_task_progress = 5";
        world.run(&update(at_work)).await.unwrap();
        world.run(&update(&beat(5))).await.unwrap();
        world.run("COMMIT").await.unwrap();
        world.taken_in().await;
        assert_eq!(world.rows(row).await, [["5", "a"]]);
        world.stop().await;
    }
}

#[tokio::test]
async fn what_a_program_wrote_of_claims_failures_and_registrations_survives() {
    for world in World::all("what survives").await {
        let agents = "INSERT INTO agents(id, name, registered_at) VALUES ('z', 'z', '2026-01-01T00:00:01.000Z'), ('a', 'a', '2026-01-01 00:00:02')";
        world.sql(agents).await;
        let order = world
            .rows("SELECT id, registered_at FROM agents ORDER BY registered_at")
            .await;
        assert_eq!(
            order,
            [
                ["z", "2026-01-01T00:00:01.000Z"],
                ["a", "2026-01-01T00:00:02.000Z"]
            ]
        );
        let old = "INSERT INTO tasks(id, title, status, created_at) VALUES ('t', 't', 'ready', '2026-01-01T00:00:00.000Z')";
        world.sql(old).await;
        let claim = "UPDATE tasks SET status = 'claimed', assigned_agent = 'a', claimed_at = '2026-01-01T00:00:03.000Z' WHERE id = 't'";
        world.sql(claim).await;
        assert_eq!(
            world.one("SELECT claimed_at FROM tasks").await,
            "2026-01-01T00:00:03.000Z"
        );
        let back = "UPDATE tasks SET status = 'ready', assigned_agent = NULL, last_error = 'too hard', previous_agents = '[\"a\"]' WHERE id = 't'";
        world.sql(back).await;
        let kept = world
            .rows("SELECT status, last_error, previous_agents, retry_count FROM tasks")
            .await;
        assert_eq!(kept, [["ready", "too hard", "[\"a\"]", "0"]]);
        world.stop().await;
    }
}

#[tokio::test]
async fn who_deregistered_is_gone_from_the_table_and_comes_back_as_it_was() {
    for world in World::all("agents that deregister").await {
        world.sql(AGENTS).await;
        world.http().register("h1", &[]).await;
        world.sql(&task("a")).await;
        let claim = "UPDATE tasks SET status = 'claimed', assigned_agent = 's1' WHERE id = 'a'";
        world.sql(claim).await;
        world.sql(&set("a", "completed")).await;
        world.sql("DELETE FROM agents WHERE id = 's1'").await;
        world
            .sql("UPDATE agents SET status = 'offline' WHERE id = 's2'")
            .await;
        let left = world.http().delete("/api/v1/agents/h1").await;
        left.expect(200);
        assert!(world.rows("SELECT id FROM agents").await.is_empty());
        assert_eq!(world.get("/agents/s1").await["agent"]["status"], "offline");
        assert_eq!(world.get("/tasks/a").await["task"]["assignedAgent"], "s1");
        // Mail waits for it.
        let sent = "INSERT INTO messages(id, type, from_agent, to_agent) VALUES ('m', 'custom', 'someone', 's1')";
        world.sql(sent).await;
        world
            .sql("INSERT INTO agents(id, name) VALUES ('s1', 's1')")
            .await;
        let back = world
            .rows("SELECT id, tasks_completed, inbox FROM agents")
            .await;
        assert_eq!(back, [["s1", "1", "1"]]);
        world.stop().await;
    }
}
