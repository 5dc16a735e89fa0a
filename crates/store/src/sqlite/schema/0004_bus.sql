-- Agents that sign on in several dialects, and for how long they may be silent.
ALTER TABLE agents ADD COLUMN doors TEXT NOT NULL DEFAULT '["jetpack"]';
ALTER TABLE agents ADD COLUMN silent_ms INTEGER NOT NULL DEFAULT 120000;
DROP INDEX sb_agents_quiet;
CREATE INDEX sb_agents_quiet ON agents(seen_at + silent_ms) WHERE presence = 'live';

-- What becomes of a task whose retries are used up; and while it is held over the bus, how long that may take.
ALTER TABLE tasks ADD COLUMN when_spent TEXT NOT NULL DEFAULT 'fail';
ALTER TABLE tasks ADD COLUMN deadline_at INTEGER;
ALTER TABLE tasks ADD COLUMN stale_ms INTEGER;
ALTER TABLE tasks ADD COLUMN look_at INTEGER;
CREATE INDEX sb_tasks_watched ON tasks(look_at) WHERE look_at IS NOT NULL;

-- A stream is handing it over, and nobody else does until then.
ALTER TABLE sb_delivery ADD COLUMN handing_until INTEGER;

-- Small rows of which there is one each, as JSON.
CREATE TABLE sb_record (
  kind  TEXT NOT NULL,
  key   TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (kind, key)
) WITHOUT ROWID;

CREATE TABLE sb_engram (
  n          INTEGER PRIMARY KEY,
  id         TEXT NOT NULL UNIQUE,
  scope      TEXT NOT NULL,
  version    TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  hash       TEXT NOT NULL,
  bytes      INTEGER NOT NULL,
  topics     TEXT NOT NULL,
  from_seq   INTEGER NOT NULL,
  to_seq     INTEGER NOT NULL,
  body       TEXT NOT NULL,
  words      TEXT NOT NULL
);
CREATE VIRTUAL TABLE sb_engram_words USING fts5(words, content='sb_engram', content_rowid='n');
