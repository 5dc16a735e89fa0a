-- Agents that sign on in several dialects, and for how long they may be silent.
ALTER TABLE agents ADD COLUMN doors TEXT NOT NULL DEFAULT '["jetpack"]';
ALTER TABLE agents ADD COLUMN silent_ms BIGINT NOT NULL DEFAULT 120000;

-- What becomes of a task whose retries are used up; and while it is held over the bus, how long that may take.
ALTER TABLE tasks ADD COLUMN when_spent TEXT NOT NULL DEFAULT 'fail';
ALTER TABLE tasks ADD COLUMN deadline_at BIGINT;
ALTER TABLE tasks ADD COLUMN stale_ms BIGINT;
ALTER TABLE tasks ADD COLUMN look_at BIGINT;

-- A stream is handing it over, and nobody else does until then.
ALTER TABLE sb_delivery ADD COLUMN handing_until BIGINT;

-- Small rows of which there is one each, as JSON.
CREATE TABLE sb_record (
  kind  TEXT COLLATE "C" NOT NULL,
  key   TEXT COLLATE "C" NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (kind, key)
);

CREATE TABLE sb_engram (
  n          BIGINT PRIMARY KEY,
  id         TEXT NOT NULL UNIQUE,
  scope      TEXT NOT NULL,
  version    TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  hash       TEXT NOT NULL,
  bytes      BIGINT NOT NULL,
  topics     TEXT NOT NULL,
  from_seq   BIGINT NOT NULL,
  to_seq     BIGINT NOT NULL,
  body       TEXT NOT NULL,
  words      TEXT NOT NULL
);

-- These columns belong to the hub as well.
CREATE FUNCTION sb_bus_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_TABLE_NAME = 'tasks' THEN
    PERFORM sb_kept('tasks', to_jsonb(OLD), to_jsonb(NEW), 'when_spent, deadline_at, stale_ms, look_at');
  ELSE
    PERFORM sb_kept('agents', to_jsonb(OLD), to_jsonb(NEW), 'doors, silent_ms');
  END IF;
  RETURN NEW;
END $$;
CREATE FUNCTION sb_bus_new() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_TABLE_NAME = 'tasks' THEN
    NEW.when_spent := 'fail';
    NEW.deadline_at := NULL;
    NEW.stale_ms := NULL;
    NEW.look_at := NULL;
  ELSE
    NEW.doors := '["jetpack"]';
    NEW.silent_ms := 120000;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER sb_tasks_7_bus BEFORE UPDATE ON tasks FOR EACH ROW
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_bus_kept();
CREATE TRIGGER sb_agents_7_bus BEFORE UPDATE ON agents FOR EACH ROW
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_bus_kept();
CREATE TRIGGER sb_tasks_8_bus BEFORE INSERT ON tasks FOR EACH ROW
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_bus_new();
CREATE TRIGGER sb_agents_8_bus BEFORE INSERT ON agents FOR EACH ROW
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_bus_new();
-- They run for whoever may write the public tables, and look nowhere else.
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION sb_bus_kept() SECURITY DEFINER SET search_path = %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION sb_bus_new() SECURITY DEFINER SET search_path = %I, pg_temp', current_schema());
END $$;
