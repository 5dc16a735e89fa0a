-- What is held against rows that strangers write. Names in braces stand for what is printed from the description of the
-- tables. A hub's own transactions carry switchboard.hub = on, and no trigger looks at what they write.

DELETE FROM sb_task_transition;
INSERT INTO sb_task_transition(a, b) VALUES {transitions};

-- A JSON array of short texts; plain ones are without control characters.
CREATE OR REPLACE FUNCTION sb_is_list(value text, items integer, bytes integer, plain boolean) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  list jsonb;
BEGIN
  IF value = '[]' OR value IS NULL THEN
    RETURN true;
  END IF;
  -- With room for quotes, commas and escapes.
  IF octet_length(value) > items * (bytes + 16) THEN
    RETURN false;
  END IF;
  BEGIN
    list := value::jsonb;
  EXCEPTION WHEN data_exception THEN
    RETURN false;
  END;
  IF jsonb_typeof(list) <> 'array' OR jsonb_array_length(list) > items THEN
    RETURN false;
  END IF;
  RETURN NOT EXISTS (
    SELECT 1 FROM jsonb_array_elements(list) AS one WHERE jsonb_typeof(one) <> 'string'
      OR octet_length(one #>> '{}') NOT BETWEEN 1 AND bytes OR (plain AND (one #>> '{}') ~ '[\u0001-\u001f\u007f]'));
END $$;

-- The instant in the one form in which instants are kept, so that they compare as texts; NULL if it is none. What says
-- nothing of a zone is meant as UTC.
CREATE OR REPLACE FUNCTION sb_instant(value text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  instant timestamptz;
BEGIN
  IF octet_length(value) > 40 OR value !~ '^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d' THEN
    RETURN NULL;
  END IF;
  BEGIN
    instant := CASE WHEN value ~ '(Z|[+-]\d\d(:?\d\d)?)$' THEN value ELSE value || 'Z' END;
  EXCEPTION WHEN data_exception THEN
    RETURN NULL;
  END;
  IF instant >= '0001-01-01Z' AND instant < '10000-01-01Z' THEN
    RETURN to_char(instant AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
  END IF;
  RETURN NULL;
END $$;

-- Numbers below zero are those of rows that no hub has seen.
CREATE OR REPLACE FUNCTION sb_tasks_new() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  {new tasks}
  NEW.number := least(0, (SELECT min(number) FROM tasks)) - 1;
  RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION sb_tasks_updated() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  texts boolean := NEW.description IS DISTINCT FROM OLD.description OR NEW.result IS DISTINCT FROM OLD.result;
BEGIN
  {changed tasks}
  -- Out of the queue until it is taken in.
  NEW.lane := NULL;
  IF NEW.epoch = OLD.epoch AND NEW.status {held} AND OLD.status NOT {held} THEN
    NEW.epoch := OLD.epoch + 1;
  END IF;
  PERFORM set_config('switchboard.hub', 'on', true);
  UPDATE tasks SET lane = NEW.lane, epoch = NEW.epoch, {times tasks} WHERE number = NEW.number;
  PERFORM set_config('switchboard.hub', '', true);
  PERFORM sb_note('tasks', NEW.id, 'update', sb_task_note(OLD, texts), sb_task_note(NEW, texts));
  RETURN NULL;
END $$;

-- A task that is deleted is canceled, and stays for its history.
CREATE OR REPLACE FUNCTION sb_tasks_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.status IN ('completed', 'failed', 'canceled') THEN
    PERFORM sb_refuse('tasks: finished tasks cannot be deleted; the hub prunes them by its [retention]');
  END IF;
  PERFORM set_config('switchboard.hub', 'on', true);
  INSERT INTO tasks({columns tasks}) VALUES ({deleted tasks});
  PERFORM set_config('switchboard.hub', '', true);
  UPDATE tasks SET status = 'canceled' WHERE number = OLD.number;
  RETURN NULL;
END $$;

-- While work is paused a claim by hand finds nothing, and is no error. A pause that is over is taken away by the hub.
CREATE OR REPLACE FUNCTION sb_tasks_paused() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.status {held} AND OLD.status NOT {held} AND NEW.assigned_agent IS NOT NULL
    AND EXISTS (SELECT 1 FROM sb_record WHERE kind = 'director'
      AND coalesce(value::jsonb ->> 'paused', value::jsonb ->> 'cooldown_until') IS NOT NULL)
  THEN
    RETURN NULL;
  END IF;
  RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION sb_agents_new() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  {new agents}
  -- The id of one that signed off or fell silent is free.
  DELETE FROM agents WHERE id = NEW.id AND presence <> 'live';
  RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION sb_agents_updated() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  written agents := NEW;
  deed text := 'update';
BEGIN
  IF NEW.last_heartbeat IS DISTINCT FROM OLD.last_heartbeat OR NEW.heartbeat_count IS DISTINCT FROM OLD.heartbeat_count THEN
    deed := 'beat';
  END IF;
  {changed agents}
  IF NEW IS DISTINCT FROM written THEN
    PERFORM set_config('switchboard.hub', 'on', true);
    UPDATE agents SET {times agents} WHERE id = NEW.id;
    PERFORM set_config('switchboard.hub', '', true);
  END IF;
  PERFORM sb_note('agents', NEW.id, deed, to_jsonb(OLD), sb_agent_note(NEW, CASE
    -- The word for a silent agent is offline too: only who turns to it signs off.
    WHEN NEW.status = 'offline' AND OLD.status <> 'offline' THEN 'gone'
    WHEN NEW.status = OLD.status AND deed <> 'beat' THEN OLD.presence
    ELSE 'live' END));
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION sb_messages_new() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  {new messages}
  IF NEW.to_agent IS NULL THEN
    -- What is for everyone is read in the copies that the hub makes of it, and only there.
    NEW.delivered_at := NEW.created_at;
    NEW.acknowledged_at := NEW.created_at;
  END IF;
  NEW.number := least(0, (SELECT min(number) FROM messages)) - 1;
  RETURN NEW;
END $$;

-- A message that is deleted was read, and stays for its history.
CREATE OR REPLACE FUNCTION sb_messages_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('switchboard.hub', 'on', true);
  INSERT INTO messages({columns messages}) VALUES ({deleted messages});
  PERFORM set_config('switchboard.hub', '', true);
  UPDATE messages SET delivered_at = sb_now() WHERE number = OLD.number AND delivered_at IS NULL;
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION sb_messages_updated() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  written messages := NEW;
BEGIN
  {changed messages}
  IF OLD.to_agent IS NULL THEN
    -- A flag on everyone's row would be one flag for all.
    NEW := OLD;
  END IF;
  IF NEW IS DISTINCT FROM written THEN
    PERFORM set_config('switchboard.hub', 'on', true);
    UPDATE messages SET acknowledged_by = NEW.acknowledged_by, {times messages} WHERE number = NEW.number;
    PERFORM set_config('switchboard.hub', '', true);
  END IF;
  IF OLD.to_agent IS NOT NULL THEN
    PERFORM sb_note('messages', coalesce((SELECT id FROM messages WHERE number = OLD.copy_of), OLD.id), 'update',
      to_jsonb(OLD) - 'payload', sb_message_note(NEW));
  END IF;
  RETURN NULL;
END $$;

-- The normal form of a path, relative to a project that is served; NULL if it leads outside of all.
CREATE OR REPLACE FUNCTION sb_lease_path(value text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  slashed text := replace(value, '\', '/');
  root text;
  one text;
  parts text[] := '{}';
BEGIN
  IF value IS NULL OR octet_length(value) > {path bytes} THEN
    RETURN value;
  END IF;
  IF slashed LIKE '/%' THEN
    SELECT key INTO root FROM sb_record WHERE kind = 'root' AND (slashed = key OR starts_with(slashed, key || '/'))
      ORDER BY length(key) DESC LIMIT 1;
    IF NOT FOUND THEN
      RETURN NULL;
    END IF;
    slashed := substr(slashed, length(root) + 2);
  END IF;
  FOREACH one IN ARRAY string_to_array(slashed, '/') LOOP
    IF one = '..' AND cardinality(parts) = 0 THEN
      RETURN NULL;
    ELSIF one = '..' THEN
      parts := parts[1:cardinality(parts) - 1];
    ELSIF one NOT IN ('', '.') THEN
      parts := parts || one;
    END IF;
  END LOOP;
  RETURN coalesce(nullif(array_to_string(parts, '/'), ''), '.');
END $$;

CREATE OR REPLACE FUNCTION sb_leases_new() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  normal text := sb_lease_path(NEW.file_path);
BEGIN
  {new leases}
  NEW.path := nullif(normal, NEW.file_path);
  NEW.prefix := CASE WHEN normal ~ '[*?{]' THEN NULL WHEN normal = '.' THEN '' ELSE normal END;
  RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION sb_leases_updated() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  written leases := NEW;
BEGIN
  {changed leases}
  IF NEW.agent_id IS DISTINCT FROM OLD.agent_id THEN
    -- Nobody's until it is taken in.
    NEW.rev := 0;
  END IF;
  IF NEW IS DISTINCT FROM written THEN
    PERFORM set_config('switchboard.hub', 'on', true);
    UPDATE leases SET rev = NEW.rev, {times leases} WHERE file_path = NEW.file_path;
    PERFORM set_config('switchboard.hub', '', true);
  END IF;
  PERFORM sb_note('leases', NEW.file_path, 'update', to_jsonb(OLD), to_jsonb(NEW));
  RETURN NULL;
END $$;

-- Snapshots are not noted: a task that points to one says what it is for.
CREATE OR REPLACE FUNCTION sb_snapshots_written() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    {new quality_snapshots}
    NEW.rowid := coalesce((SELECT max(rowid) FROM quality_snapshots), 0) + 1;
  ELSE
    {changed quality_snapshots}
  END IF;
  RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION sb_baseline_checked() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    {new quality_baseline}
  ELSE
    {changed quality_baseline}
  END IF;
  RETURN NEW;
END $$;

-- Triggers find the ledger's tables wherever the client looks for its own, and write private ones on behalf of roles that
-- may write the public ones.
DO $$
DECLARE
  one regprocedure;
BEGIN
  FOR one IN SELECT oid FROM pg_proc
    WHERE pronamespace = current_schema()::regnamespace AND proname LIKE 'sb\_%' AND prorettype = 'trigger'::regtype
      AND NOT prosecdef AND proname <> 'sb_log_chain'
  LOOP
    EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', one, current_schema());
  END LOOP;
END $$;
