-- Private rows: whose they are, their place among those, and when somebody must look at them again.
ALTER TABLE sb_record ADD COLUMN owner TEXT COLLATE "C";
ALTER TABLE sb_record ADD COLUMN position BIGINT;
ALTER TABLE sb_record ADD COLUMN due_at BIGINT;
CREATE INDEX sb_record_owned ON sb_record(kind, owner, position, key) WHERE position IS NOT NULL;
CREATE INDEX sb_record_due ON sb_record(due_at, kind, key) WHERE due_at IS NOT NULL;

-- A build that does not know these columns says no version, and leaves an instant there that no longer holds.
CREATE FUNCTION sb_record_older() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.due_at := NULL;
  RETURN NEW;
END $$;
CREATE TRIGGER sb_record_older BEFORE UPDATE ON sb_record FOR EACH ROW
  WHEN (NEW.due_at IS NOT NULL AND NEW.value NOT LIKE '{"v":%') EXECUTE FUNCTION sb_record_older();
