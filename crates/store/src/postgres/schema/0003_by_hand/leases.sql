
-- Leases.

CREATE FUNCTION sb_checked_lease(l leases) RETURNS leases LANGUAGE plpgsql AS $$
DECLARE
  other text;
BEGIN
  l.acquired_at := sb_time('leases.acquired_at', l.acquired_at);
  l.expires_at := sb_time('leases.expires_at', l.expires_at);
  PERFORM sb_whole('leases.renewed_count', l.renewed_count, 4294967295);
  IF NOT EXISTS (SELECT 1 FROM agents WHERE id = l.agent_id AND presence <> 'gone') THEN
    PERFORM sb_refuse(format('leases.agent_id: no agent %s is registered; insert it into agents first', sb_says(l.agent_id)));
  END IF;
  IF l.task_id IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM tasks WHERE id = l.task_id AND assigned_agent = l.agent_id AND status IN ('claimed', 'in_progress'))
  THEN
    PERFORM sb_refuse(format('leases.task_id: %s does not hold task %s; NULL is allowed', l.agent_id, sb_says(l.task_id)));
  END IF;
  -- At a directory above it, or below it: '0' is the character after '/'.
  SELECT held.agent_id INTO other FROM leases held
    WHERE held.agent_id <> l.agent_id AND held.file_path <> l.file_path AND held.expires_at > sb_now()
      AND (held.prefix = ANY (SELECT array_to_string(parts[1:upto], '/') FROM string_to_array(l.file_path, '/') AS parts,
            generate_series(0, cardinality(parts)) AS upto)
        OR (held.prefix > l.file_path || '/' AND held.prefix < l.file_path || '0'))
    LIMIT 1;
  IF FOUND THEN
    PERFORM sb_refuse(format('leases.file_path: a lease of %s covers %s', other, sb_says(l.file_path)));
  END IF;
  RETURN l;
END $$;

CREATE FUNCTION sb_leases_new() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF octet_length(NEW.file_path) NOT BETWEEN 1 AND 1024 OR NEW.file_path ~ '[\u0001-\u001f\u007f*?{\\]'
    OR ('/' || NEW.file_path || '/') ~ '/(\.|\.\.)?/'
  THEN
    PERFORM sb_refuse('leases.file_path: a path relative to the project, written plainly (no ./ // .. or \), without * ? {, not '
      || sb_says(NEW.file_path));
  END IF;
  NEW := sb_checked_lease(NEW);
  IF NEW.expires_at <= sb_now() THEN
    PERFORM sb_refuse('leases.expires_at: must lie ahead');
  END IF;
  IF NEW.prefix IS NOT NULL OR (NEW.rev, NEW.fencing) <> (0, 0) THEN
    PERFORM sb_refuse('leases: rev, prefix and fencing belong to the hub');
  END IF;
  NEW.prefix := NEW.file_path;
  RETURN NEW;
END $$;

CREATE FUNCTION sb_leases_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM sb_note('leases', NEW.file_path, 'insert', NULL, to_jsonb(NEW));
  RETURN NULL;
END $$;

CREATE FUNCTION sb_leases_updated() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  is_now leases;
BEGIN
  PERFORM sb_kept('leases', to_jsonb(OLD), to_jsonb(NEW), 'file_path, rev, prefix, fencing');
  IF NEW.agent_id IS DISTINCT FROM OLD.agent_id AND OLD.expires_at > sb_now() THEN
    PERFORM sb_refuse(format('leases.agent_id: %s holds this lease, and it has not run out', OLD.agent_id));
  END IF;
  is_now := sb_checked_lease(NEW);
  IF NEW.agent_id IS DISTINCT FROM OLD.agent_id THEN
    -- Nobody's until it is taken in.
    is_now.rev := 0;
  END IF;
  IF is_now IS DISTINCT FROM NEW THEN
    PERFORM set_config('switchboard.hub', 'on', true);
    UPDATE leases SET rev = is_now.rev, acquired_at = is_now.acquired_at, expires_at = is_now.expires_at
      WHERE file_path = NEW.file_path;
    PERFORM set_config('switchboard.hub', '', true);
  END IF;
  PERFORM sb_note('leases', NEW.file_path, 'update', to_jsonb(OLD), to_jsonb(is_now));
  RETURN NULL;
END $$;

CREATE FUNCTION sb_leases_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM sb_note('leases', OLD.file_path, 'delete', to_jsonb(OLD), NULL);
  RETURN NULL;
END $$;

CREATE TRIGGER sb_leases_1_turn BEFORE INSERT OR UPDATE OR DELETE ON leases
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_take_turn();
CREATE TRIGGER sb_leases_2_new BEFORE INSERT ON leases FOR EACH ROW
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_leases_new();
CREATE TRIGGER sb_leases_3_inserted AFTER INSERT ON leases FOR EACH ROW
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_leases_inserted();
CREATE TRIGGER sb_leases_4_updated AFTER UPDATE ON leases FOR EACH ROW
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_leases_updated();
CREATE TRIGGER sb_leases_5_deleted AFTER DELETE ON leases FOR EACH ROW
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_leases_deleted();
CREATE TRIGGER sb_leases_6_truncated BEFORE TRUNCATE ON leases
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_no_truncate();
