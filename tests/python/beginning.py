"""Begins as programs do that were written for the database alone, before there was a hub: it makes what it needs, if it is not there.

    beginning.py DATABASE TASK

Everything is written in their manner: tables, indexes and triggers with IF NOT EXISTS, REPLACE on agents, times in SQLite's
form, statements that name no epoch.
"""

import sqlite3
import sys

TABLES = """
CREATE TABLE IF NOT EXISTS tasks (
  id TEXT PRIMARY KEY, title TEXT NOT NULL, description TEXT,
  status TEXT NOT NULL DEFAULT 'pending', priority TEXT NOT NULL DEFAULT 'medium',
  priority_order INTEGER GENERATED ALWAYS AS (CASE priority WHEN 'critical' THEN 0 WHEN 'high' THEN 1
    WHEN 'medium' THEN 2 ELSE 3 END) STORED,
  type TEXT NOT NULL DEFAULT 'code', assigned_agent TEXT REFERENCES agents(id), claimed_at TEXT,
  dependencies TEXT DEFAULT '[]', blockers TEXT DEFAULT '[]', required_skills TEXT DEFAULT '[]', files TEXT DEFAULT '[]',
  started_at TEXT, completed_at TEXT, estimated_minutes INTEGER, actual_minutes INTEGER,
  retry_count INTEGER DEFAULT 0, max_retries INTEGER DEFAULT 2, last_error TEXT, failure_type TEXT, next_retry_at TEXT,
  previous_agents TEXT DEFAULT '[]', result TEXT, branch TEXT, quality_snapshot_id TEXT,
  created_at TEXT DEFAULT CURRENT_TIMESTAMP, updated_at TEXT DEFAULT CURRENT_TIMESTAMP
);
CREATE TABLE IF NOT EXISTS agents (
  id TEXT PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL, status TEXT NOT NULL DEFAULT 'idle',
  skills TEXT DEFAULT '[]', max_task_minutes INTEGER DEFAULT 60, can_run_tests INTEGER DEFAULT 1,
  can_run_build INTEGER DEFAULT 1, can_access_browser INTEGER DEFAULT 0, last_heartbeat TEXT,
  heartbeat_count INTEGER DEFAULT 0, current_task_id TEXT, current_task_started_at TEXT,
  current_task_progress INTEGER, current_task_phase TEXT, tasks_completed INTEGER DEFAULT 0,
  tasks_failed INTEGER DEFAULT 0, total_runtime_minutes REAL DEFAULT 0, machine_id TEXT, machine_hostname TEXT,
  pid INTEGER, registered_at TEXT DEFAULT CURRENT_TIMESTAMP, last_active_at TEXT
);
CREATE TABLE IF NOT EXISTS messages (
  id TEXT PRIMARY KEY, type TEXT NOT NULL, from_agent TEXT NOT NULL, to_agent TEXT, payload TEXT,
  ack_required INTEGER DEFAULT 0, acknowledged_at TEXT, acknowledged_by TEXT, delivered_at TEXT, expires_at TEXT,
  created_at TEXT DEFAULT CURRENT_TIMESTAMP
);
CREATE TABLE IF NOT EXISTS leases (
  file_path TEXT PRIMARY KEY, agent_id TEXT NOT NULL, task_id TEXT, acquired_at TEXT DEFAULT CURRENT_TIMESTAMP,
  expires_at TEXT NOT NULL, renewed_count INTEGER DEFAULT 0
);
CREATE TABLE IF NOT EXISTS quality_snapshots (
  id TEXT PRIMARY KEY, task_id TEXT, agent_id TEXT, build_success INTEGER, type_errors INTEGER DEFAULT 0,
  lint_errors INTEGER DEFAULT 0, lint_warnings INTEGER DEFAULT 0, tests_passing INTEGER DEFAULT 0,
  tests_failing INTEGER DEFAULT 0, test_coverage REAL, recorded_at TEXT DEFAULT CURRENT_TIMESTAMP
);
CREATE TABLE IF NOT EXISTS quality_baseline (
  id INTEGER PRIMARY KEY CHECK (id = 1), build_success INTEGER, type_errors INTEGER, updated_at TEXT
);
CREATE TABLE IF NOT EXISTS migrations (id INTEGER PRIMARY KEY, name TEXT UNIQUE, applied_at TEXT DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE IF NOT EXISTS swarm_metadata (key TEXT PRIMARY KEY, value TEXT, updated_at TEXT DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE IF NOT EXISTS memories (id TEXT PRIMARY KEY, content TEXT NOT NULL, created_at TEXT DEFAULT CURRENT_TIMESTAMP);
"""

INDEXES = """
CREATE INDEX IF NOT EXISTS idx_tasks_status ON tasks(status);
CREATE INDEX IF NOT EXISTS idx_tasks_priority ON tasks(priority_order, created_at);
CREATE INDEX IF NOT EXISTS idx_tasks_assigned ON tasks(assigned_agent);
CREATE INDEX IF NOT EXISTS idx_tasks_branch ON tasks(branch);
CREATE INDEX IF NOT EXISTS idx_tasks_ready ON tasks(status, priority_order) WHERE status = 'ready';
CREATE INDEX IF NOT EXISTS idx_tasks_retry ON tasks(next_retry_at) WHERE status = 'pending_retry';
CREATE INDEX IF NOT EXISTS idx_agents_status ON agents(status);
CREATE INDEX IF NOT EXISTS idx_messages_to ON messages(to_agent, delivered_at);
"""

TRIGGERS = """
CREATE TRIGGER IF NOT EXISTS tasks_updated_at AFTER UPDATE ON tasks BEGIN
  UPDATE tasks SET updated_at = CURRENT_TIMESTAMP WHERE id = NEW.id;
END;
CREATE TRIGGER IF NOT EXISTS baseline_updated_at AFTER UPDATE ON quality_baseline BEGIN
  UPDATE quality_baseline SET updated_at = CURRENT_TIMESTAMP WHERE id = 1;
END;
CREATE TRIGGER IF NOT EXISTS metadata_updated_at AFTER UPDATE ON swarm_metadata BEGIN
  UPDATE swarm_metadata SET updated_at = CURRENT_TIMESTAMP WHERE key = NEW.key;
END;
"""

FIRST_ROWS = """
INSERT OR IGNORE INTO migrations (name) VALUES ('001_tables');
INSERT OR IGNORE INTO swarm_metadata (key, value) VALUES ('schema_version', '1');
INSERT OR REPLACE INTO swarm_metadata (key, value) VALUES ('last_tool', 'beginning');
"""

DAY = [
    """INSERT OR REPLACE INTO agents (id, name, type, status, skills, last_heartbeat, registered_at)
       VALUES ('old-timer', 'Old Timer', 'claude-code', 'idle', '["python"]', CURRENT_TIMESTAMP, CURRENT_TIMESTAMP)""",
    """INSERT INTO tasks (id, title, status, priority, required_skills, created_at, updated_at)
       VALUES (:task, 'As it was always done', 'ready', 'high', '["python"]', CURRENT_TIMESTAMP, CURRENT_TIMESTAMP)""",
    """UPDATE tasks SET status = 'claimed', assigned_agent = 'old-timer', claimed_at = CURRENT_TIMESTAMP
       WHERE id = :task AND status = 'ready'""",
    """UPDATE agents SET status = 'busy', current_task_id = :task, last_heartbeat = CURRENT_TIMESTAMP,
         heartbeat_count = heartbeat_count + 1 WHERE id = 'old-timer'""",
    "UPDATE tasks SET status = 'in_progress', started_at = CURRENT_TIMESTAMP WHERE id = :task",
    """INSERT INTO leases (file_path, agent_id, task_id, expires_at)
       VALUES ('old.txt', 'old-timer', :task, datetime('now', '+5 minutes'))""",
    """INSERT INTO messages (id, type, from_agent, payload, created_at)
       VALUES ('about-' || :task, 'info.discovery', 'old-timer', '{"found":"it"}', CURRENT_TIMESTAMP)""",
    """UPDATE tasks SET status = 'completed', completed_at = CURRENT_TIMESTAMP, actual_minutes = 1,
         result = '{"summary":"done"}' WHERE id = :task""",
    "UPDATE agents SET status = 'idle', current_task_id = NULL, tasks_completed = tasks_completed + 1 WHERE id = 'old-timer'",
    "DELETE FROM agents WHERE id = 'old-timer'",
]


def main(database, task):
    db = sqlite3.connect(database)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA busy_timeout = 5000")
    db.execute("PRAGMA foreign_keys = ON")
    for script in (TABLES, INDEXES, TRIGGERS, FIRST_ROWS):
        db.executescript(script)
    for statement in DAY:
        with db:
            db.execute(statement, {"task": task})
    db.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
