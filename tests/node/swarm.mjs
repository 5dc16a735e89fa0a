// An agent that knows nothing but a libSQL database: it does all it has to with the statements of docs/direct-sql.md.
import assert from "node:assert/strict";
import { createClient } from "@libsql/client";
import { bound, transaction, until } from "./statements.mjs";

const db = createClient({ url: process.env.JETPACK_DB_URL, authToken: process.env.JETPACK_DB_TOKEN });
const agent = "node-1";
const one = async (name, values) => {
  const [statement, ...more] = bound(name, { agent, ...values });
  assert.equal(more.length, 0, name);
  return db.execute(statement);
};

// What such clients do at their start.
await db.executeMultiple(`
  PRAGMA journal_mode = WAL;
  PRAGMA busy_timeout = 5000;
  CREATE TABLE IF NOT EXISTS tasks (id TEXT PRIMARY KEY, title TEXT NOT NULL);
  CREATE INDEX IF NOT EXISTS idx_tasks_status ON tasks(status);
  CREATE TRIGGER IF NOT EXISTS tasks_updated_at AFTER UPDATE ON tasks BEGIN
    UPDATE tasks SET updated_at = CURRENT_TIMESTAMP WHERE id = NEW.id;
  END;
`);
await db.migrate([
  "CREATE TABLE IF NOT EXISTS migrations (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
  { sql: "INSERT OR IGNORE INTO migrations (name) VALUES (?)", args: ["001_initial"] },
]);
const versions = await db.execute("SELECT value FROM swarm_metadata WHERE key = 'schema_version'");
assert.equal(versions.rows[0].value, "1");

// Two tasks, one after the other, in one batch.
const task = { description: null, priority: "high", type: "code", skills: '["rust"]', files: "[]", minutes: 5 };
const made = await db.batch(
  [
    ...bound("create_task", { ...task, task: "first", title: "First", dependencies: "[]" }),
    ...bound("create_task", { ...task, task: "second", title: "Second", dependencies: '["first"]' }),
  ],
  "write",
);
assert.deepEqual(made.map((result) => result.rowsAffected), [1, 1]);
const registered = await one("register", {
  name: "Node", type: "custom", skills: '["rust","sql"]', minutes: 60,
  tests: true, build: true, browser: false, machine: "m", hostname: "h", pid: process.pid,
});
assert.equal(registered.rowsAffected, 1);

// The document's own statement, as it stands there.
const claimed = await one("claim_of_the_document", { agentId: agent, agentSkills: '[]["rust"]', excludeIds: "" });
assert.equal(claimed.rows.length, 1);
assert.equal(claimed.rows[0].id, "first");
assert.equal(claimed.rows[0].assigned_agent, agent);
const epoch = claimed.rows[0].epoch + 1;

// An interactive transaction.
await transaction(db, "write", async (open) => {
  for (const statement of bound("progress", { agent, task: "first", epoch, phase: "testing", percent: 50 })) {
    assert.equal((await open.execute(statement)).rowsAffected, 1, statement.sql);
  }
});

const lease = await one("acquire_lease", { path: "src/a.rs", task: "first", lasts: "+10 minutes" });
assert.equal(lease.rows[0].agent_id, agent);
const kept = await db.execute({ sql: "SELECT agent_id FROM leases WHERE file_path = ?", args: ["src/a.rs"] });
assert.equal(kept.rows[0].agent_id, agent);
assert.equal((await one("release_lease", { path: "src/a.rs" })).rowsAffected, 1);

await one("send", { message: "m1", type: "info.discovery", to: agent, payload: '{"text":"hello"}', ack_required: 1, expires: "+1 hour" });
const received = await until("the message arrives", async () => {
  const { rows } = await one("receive", {});
  return rows.length > 0 && rows;
});
assert.deepEqual(JSON.parse(received[0].payload), { text: "hello" });
assert.equal((await one("delivered", { messages: '["m1"]' })).rowsAffected, 1);
assert.equal((await one("acknowledge", { message: "m1" })).rowsAffected, 1);

assert.equal((await one("complete", { task: "first", epoch, result: '{"summary":"done"}' })).rows.length, 1);
assert.equal((await one("complete", { task: "first", epoch, result: "again" })).rows.length, 0);

// The hub takes it in, and lets the next one go.
await until("the second task is ready", async () => {
  const { rows } = await db.execute("SELECT status FROM tasks WHERE id = 'second'");
  return rows[0].status === "ready";
});
const next = await one("claim", { exclude: "[]" });
assert.equal(next.rows[0].id, "second");
const failed = await one("fail", { task: "second", epoch: next.rows[0].epoch, failure: "task_error", error: "no" });
assert.equal(failed.rows.length, 1);

// Rolled back, nothing is left; read only, nothing is written.
await assert.rejects(
  transaction(db, "write", async (open) => {
    await open.execute("INSERT INTO tasks (id, title) VALUES ('never', 'x')");
    await open.rollback();
  }),
  { code: "TRANSACTION_CLOSED" },
);
await transaction(db, "read", async (open) => {
  assert.equal((await open.execute("SELECT count(*) AS n FROM tasks WHERE id = 'never'")).rows[0].n, 0);
  await assert.rejects(open.execute("DELETE FROM tasks"), { code: "SQLITE_READONLY" });
});

// What no rule allows is refused, in words.
await assert.rejects(db.execute("UPDATE tasks SET status = 'ready' WHERE id = 'first'"), (error) => {
  assert.equal(error.code, "SQLITE_CONSTRAINT");
  assert.match(error.message, /status/);
  return true;
});
await assert.rejects(db.execute("SELECT * FROM sb_token"), { code: "SQLITE_AUTH" });
await assert.rejects(db.batch(["INSERT INTO tasks (id, title) VALUES ('half', 'x')", "SELECT nothing"], "write"));
assert.equal((await db.execute("SELECT count(*) AS n FROM tasks WHERE id = 'half'")).rows[0].n, 0);

// Values come back as they went.
const values = await db.execute({ sql: "SELECT ?, ?, ?, ?, ?", args: [null, 1.5, 9007199254740991n, "ü", new Uint8Array([1, 255])] });
const [nothing, float, integer, text, blob] = Array.from({ length: 5 }, (_, at) => values.rows[0][at]);
assert.deepEqual([nothing, float, integer, text], [null, 1.5, 9007199254740991, "ü"]);
assert.deepEqual(new Uint8Array(blob), new Uint8Array([1, 255]));

await until("the hub has seen all of it", async () => {
  const { rows } = await db.execute("SELECT status, next_retry_at FROM tasks WHERE id = 'second'");
  return rows[0].next_retry_at !== null;
});
assert.equal((await one("deregister", {})).rowsAffected, 1);
db.close();
console.log("done");
