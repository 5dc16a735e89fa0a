-- Names and counters of agents whose row was dropped; the row in agents stands over it when they come back.
CREATE TABLE sb_former_agent (
  id TEXT PRIMARY KEY NOT NULL,
  name TEXT NOT NULL,
  completed INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  runtime_ms INTEGER NOT NULL,
  registered_at INTEGER NOT NULL,
  gone_at INTEGER NOT NULL
) WITHOUT ROWID;
