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
                ran.map_err(|error| format!("{:?}", error.as_db_error()))
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
