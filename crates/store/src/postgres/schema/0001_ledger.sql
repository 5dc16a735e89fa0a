-- The same tables as on SQLite: the public ones with the names, columns, words and defaults that direct clients rely
-- on, the private ones beginning with sb_. Keys sort by bytes ("C"), as everywhere in the hub. Instants of public
-- columns are text, because clients compare them as text. Nothing here is numbered by a sequence: the head does that.

CREATE FUNCTION sb_now() RETURNS text LANGUAGE sql VOLATILE AS
$$ SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') $$;

CREATE TABLE tasks (
  id                  TEXT COLLATE "C" NOT NULL UNIQUE,
  title               TEXT NOT NULL,
  description         TEXT,
  status              TEXT NOT NULL DEFAULT 'pending',
  priority            TEXT NOT NULL DEFAULT 'medium',
  priority_order      BIGINT GENERATED ALWAYS AS
                      (CASE priority WHEN 'critical' THEN 0 WHEN 'high' THEN 1 WHEN 'medium' THEN 2 ELSE 3 END) STORED,
  type                TEXT NOT NULL DEFAULT 'code',
  assigned_agent      TEXT,
  claimed_at          TEXT,
  dependencies        TEXT NOT NULL DEFAULT '[]',
  blockers            TEXT NOT NULL DEFAULT '[]',
  required_skills     TEXT NOT NULL DEFAULT '[]',
  files               TEXT NOT NULL DEFAULT '[]',
  started_at          TEXT,
  completed_at        TEXT,
  estimated_minutes   BIGINT,
  actual_minutes      BIGINT,
  retry_count         BIGINT NOT NULL DEFAULT 0,
  max_retries         BIGINT NOT NULL DEFAULT 2,
  last_error          TEXT,
  failure_type        TEXT,
  next_retry_at       TEXT,
  previous_agents     TEXT NOT NULL DEFAULT '[]',
  result              TEXT,
  branch              TEXT,
  quality_snapshot_id TEXT,
  created_at          TEXT COLLATE "C" NOT NULL DEFAULT sb_now(),
  updated_at          TEXT COLLATE "C" NOT NULL DEFAULT sb_now(),
  rev                 BIGINT NOT NULL DEFAULT 0,
  epoch               BIGINT NOT NULL DEFAULT 0,
  lane                BIGINT,
  state_at            BIGINT NOT NULL DEFAULT 0,
  worked_ms           BIGINT,
  progress            TEXT,
  dependants          BIGINT NOT NULL DEFAULT 0,
  audience            TEXT NOT NULL DEFAULT '[]',
  on_dependency_failure TEXT NOT NULL DEFAULT 'block',
  corr_id             TEXT NOT NULL DEFAULT '',
  number              BIGINT PRIMARY KEY
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX sb_tasks_queue ON tasks(lane, number) WHERE status = 'ready';
CREATE INDEX sb_tasks_retry ON tasks(state_at) WHERE status = 'pending_retry';
CREATE INDEX sb_tasks_rare ON tasks(status, number)
  WHERE status = 'blocked' OR status = 'pending_retry' OR status = 'needs_review' OR status = 'failed' OR status = 'canceled';

CREATE TABLE agents (
  id                      TEXT COLLATE "C" PRIMARY KEY NOT NULL,
  name                    TEXT NOT NULL,
  type                    TEXT NOT NULL DEFAULT 'custom',
  status                  TEXT NOT NULL DEFAULT 'idle',
  skills                  TEXT NOT NULL DEFAULT '[]',
  max_task_minutes        BIGINT NOT NULL DEFAULT 60,
  can_run_tests           BIGINT NOT NULL DEFAULT 1,
  can_run_build           BIGINT NOT NULL DEFAULT 1,
  can_access_browser      BIGINT NOT NULL DEFAULT 0,
  last_heartbeat          TEXT,
  heartbeat_count         BIGINT NOT NULL DEFAULT 0,
  current_task_id         TEXT,
  current_task_started_at TEXT,
  current_task_progress   BIGINT,
  current_task_phase      TEXT,
  tasks_completed         BIGINT NOT NULL DEFAULT 0,
  tasks_failed            BIGINT NOT NULL DEFAULT 0,
  total_runtime_minutes   DOUBLE PRECISION NOT NULL DEFAULT 0,
  machine_id              TEXT,
  machine_hostname        TEXT,
  pid                     BIGINT,
  registered_at           TEXT NOT NULL DEFAULT sb_now(),
  last_active_at          TEXT,
  rev                     BIGINT NOT NULL DEFAULT 0,
  presence                TEXT NOT NULL DEFAULT 'live',
  presence_at             BIGINT NOT NULL DEFAULT 0,
  seen_at                 BIGINT NOT NULL DEFAULT 0,
  runtime_ms              BIGINT NOT NULL DEFAULT 0,
  holds                   TEXT NOT NULL DEFAULT '[]',
  commands                TEXT NOT NULL DEFAULT '[]',
  metrics                 TEXT,
  key_generation          BIGINT NOT NULL DEFAULT 0,
  inbox                   BIGINT NOT NULL DEFAULT 0
) WITH (fillfactor = 40);
-- No index on seen_at: signs of life then rewrite the row within its page and touch no index.
CREATE INDEX sb_agents_gone ON agents(presence_at) WHERE presence = 'gone';

CREATE TABLE messages (
  id              TEXT COLLATE "C" NOT NULL UNIQUE,
  type            TEXT NOT NULL,
  from_agent      TEXT NOT NULL,
  to_agent        TEXT,
  payload         TEXT,
  ack_required    BIGINT NOT NULL DEFAULT 0,
  acknowledged_at TEXT,
  acknowledged_by TEXT,
  delivered_at    TEXT,
  expires_at      TEXT COLLATE "C",
  created_at      TEXT COLLATE "C" NOT NULL DEFAULT sb_now(),
  rev             BIGINT NOT NULL DEFAULT 0,
  corr_id         TEXT NOT NULL DEFAULT '',
  handoff_task    TEXT,
  handoff_epoch   BIGINT,
  number          BIGINT PRIMARY KEY
);
CREATE INDEX sb_messages_created ON messages(created_at);

CREATE TABLE leases (
  file_path     TEXT COLLATE "C" PRIMARY KEY NOT NULL,
  agent_id      TEXT COLLATE "C" NOT NULL,
  task_id       TEXT COLLATE "C",
  acquired_at   TEXT NOT NULL DEFAULT sb_now(),
  expires_at    TEXT COLLATE "C" NOT NULL,
  renewed_count BIGINT NOT NULL DEFAULT 0,
  rev           BIGINT NOT NULL DEFAULT 0,
  prefix        TEXT COLLATE "C",
  fencing       BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX sb_leases_prefix ON leases(prefix);
CREATE INDEX sb_leases_agent ON leases(agent_id);
CREATE INDEX sb_leases_task ON leases(task_id) WHERE task_id IS NOT NULL;
CREATE INDEX sb_leases_due ON leases(expires_at);

CREATE TABLE quality_snapshots (
  id            TEXT COLLATE "C" PRIMARY KEY NOT NULL,
  task_id       TEXT COLLATE "C",
  agent_id      TEXT,
  build_success BIGINT,
  build_time_ms BIGINT,
  type_errors   BIGINT NOT NULL DEFAULT 0,
  lint_errors   BIGINT NOT NULL DEFAULT 0,
  lint_warnings BIGINT NOT NULL DEFAULT 0,
  tests_passing BIGINT NOT NULL DEFAULT 0,
  tests_failing BIGINT NOT NULL DEFAULT 0,
  tests_skipped BIGINT NOT NULL DEFAULT 0,
  test_coverage DOUBLE PRECISION,
  test_time_ms  BIGINT,
  build_output  TEXT,
  type_output   TEXT,
  lint_output   TEXT,
  test_output   TEXT,
  recorded_at   TEXT NOT NULL DEFAULT sb_now(),
  rowid         BIGINT NOT NULL UNIQUE
);
CREATE INDEX sb_snapshots_task ON quality_snapshots(task_id);

CREATE TABLE quality_baseline (
  id            BIGINT PRIMARY KEY CHECK (id = 1),
  build_success BIGINT NOT NULL DEFAULT 0,
  type_errors   BIGINT NOT NULL DEFAULT 0,
  lint_errors   BIGINT NOT NULL DEFAULT 0,
  lint_warnings BIGINT NOT NULL DEFAULT 0,
  tests_passing BIGINT NOT NULL DEFAULT 0,
  tests_failing BIGINT NOT NULL DEFAULT 0,
  test_coverage DOUBLE PRECISION,
  set_by        TEXT,
  created_at    TEXT NOT NULL DEFAULT sb_now(),
  updated_at    TEXT NOT NULL DEFAULT sb_now(),
  rev           BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE migrations (
  id         BIGINT PRIMARY KEY,
  name       TEXT NOT NULL UNIQUE,
  applied_at TEXT NOT NULL DEFAULT sb_now()
);
CREATE TABLE swarm_metadata (
  key        TEXT COLLATE "C" PRIMARY KEY NOT NULL,
  value      TEXT,
  updated_at TEXT NOT NULL DEFAULT sb_now()
);
INSERT INTO swarm_metadata(key, value) VALUES
  ('schema_version', '1'),
  ('created_at', sb_now());

-- Private from here on.

CREATE TABLE sb_head (
  id                BIGINT PRIMARY KEY CHECK (id = 1),
  seq               BIGINT NOT NULL,
  last_at           BIGINT NOT NULL,
  task_number       BIGINT NOT NULL,
  message_number    BIGINT NOT NULL,
  lane              BIGINT NOT NULL,
  fencing           BIGINT NOT NULL,
  tasks             TEXT NOT NULL,
  queued_deliveries BIGINT NOT NULL,
  leases            BIGINT NOT NULL,
  answer_rows       BIGINT NOT NULL,
  answer_bytes      BIGINT NOT NULL,
  served_at         BIGINT NOT NULL,
  floor             BIGINT NOT NULL,
  last_message_at   BIGINT NOT NULL,
  -- Who wrote last, and which of its batches it was: whoever finds itself here may trust what it remembers.
  writer            BIGINT NOT NULL,
  generation        BIGINT NOT NULL,
  -- Builds that know fewer schema steps than this must not write.
  schema_floor      BIGINT NOT NULL
) WITH (fillfactor = 10);
INSERT INTO sb_head VALUES (1, 0, 0, 0, 0, 0, 0, '[0,0,0,0,0,0,0,0,0]', 0, 0, 0, 0, 0, 0, 0, 0, 0, 1);

-- The event log: one row for the events of one batch, found by the first of their numbers.
CREATE TABLE sb_log (
  first  BIGINT PRIMARY KEY,
  last   BIGINT NOT NULL,
  at     BIGINT NOT NULL,
  writer BIGINT NOT NULL,
  body   TEXT NOT NULL
-- What fits into a page is not compressed: that costs more than it saves.
) WITH (toast_tuple_target = 8160);

CREATE TABLE sb_dep (
  needs  TEXT COLLATE "C" NOT NULL,
  number BIGINT NOT NULL,
  task   TEXT NOT NULL,
  PRIMARY KEY (needs, number)
);

CREATE TABLE sb_lane (
  lane  BIGINT PRIMARY KEY,
  key   TEXT NOT NULL,
  rep   TEXT COLLATE "C" NOT NULL,
  prio  BIGINT NOT NULL,
  head  BIGINT NOT NULL,
  ready BIGINT NOT NULL,
  held  BIGINT NOT NULL
) WITH (fillfactor = 50);
-- Keys may be longer than an index entry.
CREATE UNIQUE INDEX sb_lane_key ON sb_lane(md5(key));
CREATE INDEX sb_lane_ready ON sb_lane(rep, prio, head, lane) WHERE ready > 0;
CREATE INDEX sb_lane_held ON sb_lane(rep) WHERE held > 0;
CREATE TABLE sb_rep (rep TEXT COLLATE "C" PRIMARY KEY NOT NULL, lanes BIGINT NOT NULL);

CREATE TABLE sb_attempt (
  number     BIGINT NOT NULL,
  epoch      BIGINT NOT NULL,
  task       TEXT NOT NULL,
  agent      TEXT NOT NULL,
  claimed_at BIGINT NOT NULL,
  ended_at   BIGINT NOT NULL,
  outcome    TEXT NOT NULL,
  failure    TEXT,
  message    TEXT,
  details    TEXT,
  suggested  TEXT,
  progress   TEXT,
  PRIMARY KEY (number, epoch)
);

CREATE TABLE sb_delivery (
  agent           TEXT COLLATE "C" NOT NULL,
  number          BIGINT NOT NULL,
  message         TEXT NOT NULL,
  state           TEXT NOT NULL,
  delivered_at    BIGINT,
  acknowledged_at BIGINT,
  expires_at      BIGINT,
  PRIMARY KEY (number, agent)
);
CREATE INDEX sb_delivery_inbox ON sb_delivery(agent, number) WHERE state = 'queued';
CREATE INDEX sb_delivery_due ON sb_delivery(expires_at) WHERE state = 'queued' AND expires_at IS NOT NULL;
CREATE INDEX sb_delivery_agent ON sb_delivery(agent, number);

CREATE TABLE sb_learning (
  n          BIGINT PRIMARY KEY,
  id         TEXT COLLATE "C" NOT NULL UNIQUE,
  text       TEXT NOT NULL,
  task       TEXT,
  agent      TEXT,
  created_at BIGINT NOT NULL
);

CREATE TABLE sb_answer (
  n         BIGINT PRIMARY KEY,
  principal TEXT COLLATE "C" NOT NULL,
  operation TEXT COLLATE "C" NOT NULL,
  key       TEXT COLLATE "C" NOT NULL,
  body_hash BYTEA NOT NULL,
  answer    BYTEA NOT NULL,
  at        BIGINT NOT NULL,
  UNIQUE (principal, operation, key)
);

CREATE TABLE sb_nonce (
  agent       TEXT COLLATE "C" NOT NULL,
  value       TEXT COLLATE "C" NOT NULL,
  valid_until BIGINT NOT NULL,
  PRIMARY KEY (agent, value)
);
CREATE INDEX sb_nonce_until ON sb_nonce(valid_until);

CREATE TABLE sb_token (
  id         TEXT COLLATE "C" PRIMARY KEY NOT NULL,
  name       TEXT NOT NULL,
  scope      TEXT NOT NULL,
  hash       BYTEA NOT NULL UNIQUE,
  created_at BIGINT NOT NULL,
  revoked_at BIGINT
);
-- Names and counters of agents whose row was dropped; the row in agents stands over it when they come back.
CREATE TABLE sb_former_agent (
  id TEXT COLLATE "C" PRIMARY KEY NOT NULL,
  name TEXT NOT NULL,
  completed BIGINT NOT NULL,
  failed BIGINT NOT NULL,
  runtime_ms BIGINT NOT NULL,
  registered_at BIGINT NOT NULL,
  gone_at BIGINT NOT NULL
);

-- The key that all coordinators sign with.
CREATE TABLE sb_secret (
  id  BIGINT PRIMARY KEY CHECK (id = 1),
  key BYTEA NOT NULL
);
