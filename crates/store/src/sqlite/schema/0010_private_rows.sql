-- Private rows: whose they are, their place among those, and when somebody must look at them again.
ALTER TABLE sb_record ADD COLUMN owner TEXT;
ALTER TABLE sb_record ADD COLUMN position INTEGER;
ALTER TABLE sb_record ADD COLUMN due_at INTEGER;
CREATE INDEX sb_record_owned ON sb_record(kind, owner, position, key) WHERE position IS NOT NULL;
CREATE INDEX sb_record_due ON sb_record(due_at, kind, key) WHERE due_at IS NOT NULL;
