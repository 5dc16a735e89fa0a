-- What is written into the public tables by hand: noted here by triggers, taken in by the hub with its next batch.
CREATE TABLE sb_hand (
  n      INTEGER PRIMARY KEY,
  tbl    TEXT NOT NULL,
  key    TEXT NOT NULL,
  deed   TEXT NOT NULL,
  was    TEXT,
  became TEXT
);
CREATE INDEX sb_hand_row ON sb_hand(tbl, key, n);
-- The row that an INSERT finds under its key: still here after it, the INSERT was a REPLACE.
CREATE TABLE sb_was (
  tbl TEXT NOT NULL,
  key TEXT NOT NULL,
  was TEXT,
  PRIMARY KEY (tbl, key)
) WITHOUT ROWID;
-- The changes of status that a hand may make; filled by each build that opens the file.
CREATE TABLE sb_task_transition (
  a TEXT NOT NULL,
  b TEXT NOT NULL,
  PRIMARY KEY (a, b)
) WITHOUT ROWID;
-- Agents that registered by SQL: each gets its own copy of a broadcast.
CREATE TABLE sb_sql_agent (id TEXT PRIMARY KEY NOT NULL) WITHOUT ROWID;
ALTER TABLE messages ADD COLUMN copy_of INTEGER;
CREATE INDEX sb_messages_copies ON messages(copy_of) WHERE copy_of IS NOT NULL;

-- Names that direct clients create if they are not taken. They stand on a column that no claim touches, and so cost
-- nothing; indexes that serve these clients are made when the first agent registers by SQL.
CREATE INDEX idx_tasks_branch ON tasks(branch) WHERE branch IS NOT NULL;
CREATE INDEX idx_tasks_status ON tasks(branch) WHERE branch = '';
CREATE INDEX idx_tasks_priority ON tasks(branch) WHERE branch = '';
CREATE INDEX idx_tasks_assigned ON tasks(branch) WHERE branch = '';
CREATE INDEX idx_tasks_ready ON tasks(branch) WHERE branch = '';
CREATE INDEX idx_tasks_retry ON tasks(branch) WHERE branch = '';
