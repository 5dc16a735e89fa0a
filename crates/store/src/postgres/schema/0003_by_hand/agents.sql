
-- Agents.

CREATE FUNCTION sb_checked_agent(a agents) RETURNS agents LANGUAGE plpgsql AS $$
BEGIN
  PERFORM sb_bytes('agents.name', a.name, 1, 256);
  PERFORM sb_word('agents.type', a.type, 'claude-code, codex, gemini, browser, custom');
  PERFORM sb_word('agents.status', a.status, 'idle, busy, error, offline, shutting_down');
  PERFORM sb_list('agents.skills', a.skills, 64, 64, true);
  PERFORM sb_whole('agents.max_task_minutes', a.max_task_minutes, 100000);
  PERFORM sb_whole('agents.can_run_tests', a.can_run_tests, 1);
  PERFORM sb_whole('agents.can_run_build', a.can_run_build, 1);
  PERFORM sb_whole('agents.can_access_browser', a.can_access_browser, 1);
  PERFORM sb_whole('agents.heartbeat_count', a.heartbeat_count, 9223372036854775807);
  PERFORM sb_whole('agents.tasks_completed', a.tasks_completed, 9223372036854775807);
  PERFORM sb_whole('agents.tasks_failed', a.tasks_failed, 9223372036854775807);
  PERFORM sb_whole('agents.pid', a.pid, 4294967295);
  PERFORM sb_whole('agents.current_task_progress', a.current_task_progress, 100);
  PERFORM sb_bytes('agents.current_task_id', a.current_task_id, 0, 256);
  PERFORM sb_bytes('agents.current_task_phase', a.current_task_phase, 0, 256);
  PERFORM sb_bytes('agents.machine_id', a.machine_id, 0, 256);
  PERFORM sb_bytes('agents.machine_hostname', a.machine_hostname, 0, 256);
  a.current_task_started_at := sb_time('agents.current_task_started_at', a.current_task_started_at);
  a.last_heartbeat := sb_time('agents.last_heartbeat', a.last_heartbeat);
  a.last_active_at := sb_time('agents.last_active_at', a.last_active_at);
  a.registered_at := sb_time('agents.registered_at', a.registered_at);
  RETURN a;
END $$;

CREATE FUNCTION sb_agents_new() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW := sb_checked_agent(NEW);
  PERFORM sb_id('agents.id', NEW.id);
  IF NEW.id IN ('steward', 'switchboard') THEN
    PERFORM sb_refuse(format('agents.id: %s is reserved', NEW.id));
  END IF;
  IF (NEW.rev, NEW.presence, NEW.presence_at, NEW.seen_at, NEW.runtime_ms, NEW.holds, NEW.commands, NEW.key_generation, NEW.inbox)
    <> (0, 'live', 0, 0, 0, '[]', '[]', 0, 0) OR NEW.metrics IS NOT NULL
  THEN
    PERFORM sb_refuse('agents: the columns after last_active_at belong to the hub');
  END IF;
  -- The id of one that signed off or fell silent is free.
  DELETE FROM agents WHERE id = NEW.id AND presence <> 'live';
  RETURN NEW;
END $$;

CREATE FUNCTION sb_agent_note(a agents, presence text) RETURNS jsonb LANGUAGE sql STABLE AS
$$ SELECT to_jsonb(a) || jsonb_build_object('presence', presence) $$;

CREATE FUNCTION sb_agents_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO sb_sql_agent(id) VALUES (NEW.id) ON CONFLICT DO NOTHING;
  PERFORM sb_note('agents', NEW.id, 'insert', NULL, sb_agent_note(NEW, CASE WHEN NEW.status = 'offline' THEN 'gone' ELSE 'live' END));
  RETURN NULL;
END $$;

CREATE FUNCTION sb_agents_updated() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  is_now agents;
  deed text := 'update';
BEGIN
  PERFORM sb_kept('agents', to_jsonb(OLD), to_jsonb(NEW),
    'id, rev, presence, presence_at, seen_at, runtime_ms, holds, commands, metrics, key_generation, inbox');
  is_now := sb_checked_agent(NEW);
  IF is_now IS DISTINCT FROM NEW THEN
    PERFORM set_config('switchboard.hub', 'on', true);
    UPDATE agents SET current_task_started_at = is_now.current_task_started_at, last_heartbeat = is_now.last_heartbeat,
      last_active_at = is_now.last_active_at, registered_at = is_now.registered_at WHERE id = NEW.id;
    PERFORM set_config('switchboard.hub', '', true);
  END IF;
  IF NEW.last_heartbeat IS DISTINCT FROM OLD.last_heartbeat OR NEW.heartbeat_count IS DISTINCT FROM OLD.heartbeat_count THEN
    deed := 'beat';
  END IF;
  PERFORM sb_note('agents', NEW.id, deed, to_jsonb(OLD), sb_agent_note(is_now, CASE
    -- The word for a silent agent is offline too: only who turns to it signs off.
    WHEN NEW.status = 'offline' AND OLD.status <> 'offline' THEN 'gone'
    WHEN NEW.status = OLD.status AND deed <> 'beat' THEN OLD.presence
    ELSE 'live' END));
  RETURN NULL;
END $$;

CREATE FUNCTION sb_agents_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM sb_note('agents', OLD.id, 'delete', to_jsonb(OLD), NULL);
  RETURN NULL;
END $$;

CREATE TRIGGER sb_agents_1_turn BEFORE INSERT OR UPDATE OR DELETE ON agents
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_take_turn();
CREATE TRIGGER sb_agents_2_new BEFORE INSERT ON agents FOR EACH ROW
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_agents_new();
CREATE TRIGGER sb_agents_3_inserted AFTER INSERT ON agents FOR EACH ROW
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_agents_inserted();
CREATE TRIGGER sb_agents_4_updated AFTER UPDATE ON agents FOR EACH ROW
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_agents_updated();
CREATE TRIGGER sb_agents_5_deleted AFTER DELETE ON agents FOR EACH ROW
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_agents_deleted();
CREATE TRIGGER sb_agents_6_truncated BEFORE TRUNCATE ON agents
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_no_truncate();
