-- The public tables: names, columns, words and defaults that Jetpack's direct clients rely on, plus columns of ours
-- with defaults. Schema-level SQL keeps to features of SQLite 3.37, because it also runs inside those clients.

CREATE TABLE tasks (
  id                  TEXT NOT NULL UNIQUE,
  title               TEXT NOT NULL,
  description         TEXT,
  status              TEXT NOT NULL DEFAULT 'pending',
  priority            TEXT NOT NULL DEFAULT 'medium',
  priority_order      INTEGER GENERATED ALWAYS AS
                      (CASE priority WHEN 'critical' THEN 0 WHEN 'high' THEN 1 WHEN 'medium' THEN 2 ELSE 3 END) VIRTUAL,
  type                TEXT NOT NULL DEFAULT 'code',
  assigned_agent      TEXT,
  claimed_at          TEXT,
  dependencies        TEXT NOT NULL DEFAULT '[]',
  blockers            TEXT NOT NULL DEFAULT '[]',
  required_skills     TEXT NOT NULL DEFAULT '[]',
  files               TEXT NOT NULL DEFAULT '[]',
  started_at          TEXT,
  completed_at        TEXT,
  estimated_minutes   INTEGER,
  actual_minutes      INTEGER,
  retry_count         INTEGER NOT NULL DEFAULT 0,
  max_retries         INTEGER NOT NULL DEFAULT 2,
  last_error          TEXT,
  failure_type        TEXT,
  next_retry_at       TEXT,
  previous_agents     TEXT NOT NULL DEFAULT '[]',
  result              TEXT,
  branch              TEXT,
  quality_snapshot_id TEXT,
  created_at          TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  updated_at          TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  rev                 INTEGER NOT NULL DEFAULT 0,
  epoch               INTEGER NOT NULL DEFAULT 0,
  lane                INTEGER,
  state_at            INTEGER NOT NULL DEFAULT 0,
  worked_ms           INTEGER,
  progress            TEXT,
  dependants          INTEGER NOT NULL DEFAULT 0,
  audience            TEXT NOT NULL DEFAULT '[]',
  on_dependency_failure TEXT NOT NULL DEFAULT 'block',
  corr_id             TEXT NOT NULL DEFAULT '',
  number              INTEGER PRIMARY KEY
);
CREATE INDEX sb_tasks_queue ON tasks(lane, number) WHERE status = 'ready';
CREATE INDEX sb_tasks_retry ON tasks(state_at) WHERE status = 'pending_retry';
-- Spelled out, because every update would build a table in memory for IN (…).
CREATE INDEX sb_tasks_rare ON tasks(status, number)
  WHERE status = 'blocked' OR status = 'pending_retry' OR status = 'needs_review' OR status = 'failed' OR status = 'canceled';

CREATE TABLE agents (
  id                      TEXT PRIMARY KEY NOT NULL,
  name                    TEXT NOT NULL,
  type                    TEXT NOT NULL DEFAULT 'custom',
  status                  TEXT NOT NULL DEFAULT 'idle',
  skills                  TEXT NOT NULL DEFAULT '[]',
  max_task_minutes        INTEGER NOT NULL DEFAULT 60,
  can_run_tests           INTEGER NOT NULL DEFAULT 1,
  can_run_build           INTEGER NOT NULL DEFAULT 1,
  can_access_browser      INTEGER NOT NULL DEFAULT 0,
  last_heartbeat          TEXT,
  heartbeat_count         INTEGER NOT NULL DEFAULT 0,
  current_task_id         TEXT,
  current_task_started_at TEXT,
  current_task_progress   INTEGER,
  current_task_phase      TEXT,
  tasks_completed         INTEGER NOT NULL DEFAULT 0,
  tasks_failed            INTEGER NOT NULL DEFAULT 0,
  total_runtime_minutes   REAL NOT NULL DEFAULT 0,
  machine_id              TEXT,
  machine_hostname        TEXT,
  pid                     INTEGER,
  registered_at           TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  last_active_at          TEXT,
  rev                     INTEGER NOT NULL DEFAULT 0,
  presence                TEXT NOT NULL DEFAULT 'live',
  presence_at             INTEGER NOT NULL DEFAULT 0,
  seen_at                 INTEGER NOT NULL DEFAULT 0,
  runtime_ms              INTEGER NOT NULL DEFAULT 0,
  holds                   TEXT NOT NULL DEFAULT '[]',
  commands                TEXT NOT NULL DEFAULT '[]',
  metrics                 TEXT,
  key_generation          INTEGER NOT NULL DEFAULT 0,
  inbox                   INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX sb_agents_quiet ON agents(seen_at) WHERE presence = 'live';
CREATE INDEX sb_agents_gone ON agents(presence_at) WHERE presence = 'gone';

CREATE TABLE messages (
  id              TEXT NOT NULL UNIQUE,
  type            TEXT NOT NULL,
  from_agent      TEXT NOT NULL,
  to_agent        TEXT,
  payload         TEXT,
  ack_required    INTEGER NOT NULL DEFAULT 0,
  acknowledged_at TEXT,
  acknowledged_by TEXT,
  delivered_at    TEXT,
  expires_at      TEXT,
  created_at      TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  rev             INTEGER NOT NULL DEFAULT 0,
  corr_id         TEXT NOT NULL DEFAULT '',
  handoff_task    TEXT,
  handoff_epoch   INTEGER,
  number          INTEGER PRIMARY KEY
);
CREATE INDEX sb_messages_created ON messages(created_at);

CREATE TABLE leases (
  file_path     TEXT PRIMARY KEY NOT NULL,
  agent_id      TEXT NOT NULL,
  task_id       TEXT,
  acquired_at   TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  expires_at    TEXT NOT NULL,
  renewed_count INTEGER NOT NULL DEFAULT 0,
  rev           INTEGER NOT NULL DEFAULT 0,
  prefix        TEXT,
  fencing       INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX sb_leases_prefix ON leases(prefix);
CREATE INDEX sb_leases_agent ON leases(agent_id);
CREATE INDEX sb_leases_task ON leases(task_id) WHERE task_id IS NOT NULL;
CREATE INDEX sb_leases_due ON leases(expires_at);

CREATE TABLE quality_snapshots (
  id            TEXT PRIMARY KEY NOT NULL,
  task_id       TEXT,
  agent_id      TEXT,
  build_success INTEGER,
  build_time_ms INTEGER,
  type_errors   INTEGER NOT NULL DEFAULT 0,
  lint_errors   INTEGER NOT NULL DEFAULT 0,
  lint_warnings INTEGER NOT NULL DEFAULT 0,
  tests_passing INTEGER NOT NULL DEFAULT 0,
  tests_failing INTEGER NOT NULL DEFAULT 0,
  tests_skipped INTEGER NOT NULL DEFAULT 0,
  test_coverage REAL,
  test_time_ms  INTEGER,
  build_output  TEXT,
  type_output   TEXT,
  lint_output   TEXT,
  test_output   TEXT,
  recorded_at   TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);
CREATE INDEX sb_snapshots_task ON quality_snapshots(task_id);

CREATE TABLE quality_baseline (
  id            INTEGER PRIMARY KEY CHECK (id = 1),
  build_success INTEGER NOT NULL DEFAULT 0,
  type_errors   INTEGER NOT NULL DEFAULT 0,
  lint_errors   INTEGER NOT NULL DEFAULT 0,
  lint_warnings INTEGER NOT NULL DEFAULT 0,
  tests_passing INTEGER NOT NULL DEFAULT 0,
  tests_failing INTEGER NOT NULL DEFAULT 0,
  test_coverage REAL,
  set_by        TEXT,
  created_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  updated_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  rev           INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE migrations (
  id         INTEGER PRIMARY KEY,
  name       TEXT NOT NULL UNIQUE,
  applied_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);
CREATE TABLE swarm_metadata (
  key        TEXT PRIMARY KEY NOT NULL,
  value      TEXT,
  updated_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);
INSERT INTO swarm_metadata(key, value) VALUES
  ('schema_version', '1'),
  ('created_at', strftime('%Y-%m-%dT%H:%M:%fZ', 'now'));

-- Private from here on.

CREATE TABLE sb_head (
  id                INTEGER PRIMARY KEY CHECK (id = 1),
  seq               INTEGER NOT NULL,
  last_at           INTEGER NOT NULL,
  task_number       INTEGER NOT NULL,
  message_number    INTEGER NOT NULL,
  lane              INTEGER NOT NULL,
  fencing           INTEGER NOT NULL,
  tasks             TEXT NOT NULL,
  queued_deliveries INTEGER NOT NULL,
  leases            INTEGER NOT NULL,
  answer_rows       INTEGER NOT NULL,
  answer_bytes      INTEGER NOT NULL,
  served_at         INTEGER NOT NULL,
  floor             INTEGER NOT NULL,
  last_message_at   INTEGER NOT NULL
);
INSERT INTO sb_head VALUES (1, 0, 0, 0, 0, 0, 0, '[0,0,0,0,0,0,0,0,0]', 0, 0, 0, 0, 0, 0, 0);

-- The event log: one row for the events of one batch, found by the first of their numbers.
CREATE TABLE sb_log (
  first INTEGER PRIMARY KEY,
  last  INTEGER NOT NULL,
  at    INTEGER NOT NULL,
  body  TEXT NOT NULL
);

CREATE TABLE sb_dep (
  needs  TEXT NOT NULL,
  number INTEGER NOT NULL,
  task   TEXT NOT NULL,
  PRIMARY KEY (needs, number)
) WITHOUT ROWID;

CREATE TABLE sb_lane (
  lane  INTEGER PRIMARY KEY,
  key   TEXT NOT NULL UNIQUE,
  rep   TEXT NOT NULL,
  prio  INTEGER NOT NULL,
  head  INTEGER NOT NULL,
  ready INTEGER NOT NULL,
  held  INTEGER NOT NULL
);
CREATE INDEX sb_lane_ready ON sb_lane(rep, prio, head, lane) WHERE ready > 0;
CREATE INDEX sb_lane_held ON sb_lane(rep) WHERE held > 0;
CREATE TABLE sb_rep (rep TEXT PRIMARY KEY NOT NULL, lanes INTEGER NOT NULL) WITHOUT ROWID;

CREATE TABLE sb_attempt (
  number     INTEGER NOT NULL,
  epoch      INTEGER NOT NULL,
  task       TEXT NOT NULL,
  agent      TEXT NOT NULL,
  claimed_at INTEGER NOT NULL,
  ended_at   INTEGER NOT NULL,
  outcome    TEXT NOT NULL,
  failure    TEXT,
  message    TEXT,
  details    TEXT,
  suggested  TEXT,
  progress   TEXT,
  PRIMARY KEY (number, epoch)
) WITHOUT ROWID;

CREATE TABLE sb_delivery (
  agent           TEXT NOT NULL,
  number          INTEGER NOT NULL,
  message         TEXT NOT NULL,
  state           TEXT NOT NULL,
  delivered_at    INTEGER,
  acknowledged_at INTEGER,
  expires_at      INTEGER,
  PRIMARY KEY (number, agent)
) WITHOUT ROWID;
CREATE INDEX sb_delivery_inbox ON sb_delivery(agent, number) WHERE state = 'queued';
CREATE INDEX sb_delivery_due ON sb_delivery(expires_at) WHERE state = 'queued' AND expires_at IS NOT NULL;
CREATE INDEX sb_delivery_agent ON sb_delivery(agent, number);

CREATE TABLE sb_learning (
  n          INTEGER PRIMARY KEY,
  id         TEXT NOT NULL UNIQUE,
  text       TEXT NOT NULL,
  task       TEXT,
  agent      TEXT,
  created_at INTEGER NOT NULL
);
CREATE VIRTUAL TABLE sb_learning_words USING fts5(text, content='sb_learning', content_rowid='n');

CREATE TABLE sb_answer (
  n         INTEGER PRIMARY KEY,
  principal TEXT NOT NULL,
  operation TEXT NOT NULL,
  key       TEXT NOT NULL,
  body_hash BLOB NOT NULL,
  answer    BLOB NOT NULL,
  at        INTEGER NOT NULL,
  UNIQUE (principal, operation, key)
);

CREATE TABLE sb_nonce (
  agent       TEXT NOT NULL,
  value       TEXT NOT NULL,
  valid_until INTEGER NOT NULL,
  PRIMARY KEY (agent, value)
) WITHOUT ROWID;
CREATE INDEX sb_nonce_until ON sb_nonce(valid_until);

CREATE TABLE sb_token (
  id         TEXT PRIMARY KEY NOT NULL,
  name       TEXT NOT NULL,
  scope      TEXT NOT NULL,
  hash       BLOB NOT NULL UNIQUE,
  created_at INTEGER NOT NULL,
  revoked_at INTEGER
);
