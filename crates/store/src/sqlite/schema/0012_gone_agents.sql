-- Agents that signed off are kept apart: strangers see only those that are there.
CREATE TABLE sb_gone_agent (
  id TEXT PRIMARY KEY NOT NULL,
  name TEXT NOT NULL,
  type TEXT NOT NULL DEFAULT 'custom',
  status TEXT NOT NULL DEFAULT 'idle',
  skills TEXT NOT NULL DEFAULT '[]',
  max_task_minutes INTEGER NOT NULL DEFAULT 60,
  can_run_tests INTEGER NOT NULL DEFAULT 1,
  can_run_build INTEGER NOT NULL DEFAULT 1,
  can_access_browser INTEGER NOT NULL DEFAULT 0,
  last_heartbeat TEXT,
  heartbeat_count INTEGER NOT NULL DEFAULT 0,
  current_task_id TEXT,
  current_task_started_at TEXT,
  current_task_progress INTEGER,
  current_task_phase TEXT,
  tasks_completed INTEGER NOT NULL DEFAULT 0,
  tasks_failed INTEGER NOT NULL DEFAULT 0,
  total_runtime_minutes REAL NOT NULL DEFAULT 0,
  machine_id TEXT,
  machine_hostname TEXT,
  pid INTEGER,
  registered_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  last_active_at TEXT,
  rev INTEGER NOT NULL DEFAULT 0,
  presence TEXT NOT NULL DEFAULT 'live',
  presence_at INTEGER NOT NULL DEFAULT 0,
  seen_at INTEGER NOT NULL DEFAULT 0,
  runtime_ms INTEGER NOT NULL DEFAULT 0,
  holds TEXT NOT NULL DEFAULT '[]',
  commands TEXT NOT NULL DEFAULT '[]',
  metrics TEXT,
  key_generation INTEGER NOT NULL DEFAULT 0,
  inbox INTEGER NOT NULL DEFAULT 0,
  doors TEXT NOT NULL DEFAULT '["jetpack"]',
  silent_ms INTEGER NOT NULL DEFAULT 120000,
  stream TEXT NOT NULL DEFAULT '{}'
);
CREATE INDEX sb_gone_agent_since ON sb_gone_agent(presence_at, id);
INSERT INTO sb_gone_agent(id, name, type, status, skills, max_task_minutes, can_run_tests, can_run_build, can_access_browser, last_heartbeat, heartbeat_count, current_task_id, current_task_started_at, current_task_progress, current_task_phase, tasks_completed, tasks_failed, total_runtime_minutes, machine_id, machine_hostname, pid, registered_at, last_active_at, rev, presence, presence_at, seen_at, runtime_ms, holds, commands, metrics, key_generation, inbox, doors, silent_ms, stream)
  SELECT id, name, type, status, skills, max_task_minutes, can_run_tests, can_run_build, can_access_browser, last_heartbeat, heartbeat_count, current_task_id, current_task_started_at, current_task_progress, current_task_phase, tasks_completed, tasks_failed, total_runtime_minutes, machine_id, machine_hostname, pid, registered_at, last_active_at, rev, presence, presence_at, seen_at, runtime_ms, holds, commands, metrics, key_generation, inbox, doors, silent_ms, stream FROM agents WHERE presence = 'gone';
DELETE FROM agents WHERE presence = 'gone';
