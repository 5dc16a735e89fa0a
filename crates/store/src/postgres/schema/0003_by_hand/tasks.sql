
-- Tasks.

CREATE FUNCTION sb_checked_task(t tasks) RETURNS tasks LANGUAGE plpgsql AS $$
BEGIN
  PERFORM sb_bytes('tasks.title', t.title, 1, 1024);
  PERFORM sb_bytes('tasks.description', t.description, 0, 262144);
  PERFORM sb_bytes('tasks.result', t.result, 0, 262144);
  PERFORM sb_bytes('tasks.last_error', t.last_error, 0, 16384);
  PERFORM sb_bytes('tasks.failure_type', t.failure_type, 0, 256);
  PERFORM sb_bytes('tasks.branch', t.branch, 0, 1024);
  PERFORM sb_bytes('tasks.quality_snapshot_id', t.quality_snapshot_id, 0, 128);
  PERFORM sb_word('tasks.priority', t.priority, 'critical, high, medium, low');
  PERFORM sb_word('tasks.type', t.type, 'code, test, browser_test, documentation, review, custom');
  PERFORM sb_list('tasks.required_skills', t.required_skills, 64, 64, true);
  PERFORM sb_list('tasks.files', t.files, 1000, 1024, false);
  PERFORM sb_list('tasks.audience', t.audience, 64, 128, true);
  PERFORM sb_list('tasks.previous_agents', t.previous_agents, 10000, 128, true);
  PERFORM sb_list('tasks.blockers', t.blockers, 256, 128, true);
  PERFORM sb_whole('tasks.estimated_minutes', t.estimated_minutes, 100000);
  PERFORM sb_whole('tasks.max_retries', t.max_retries, 100);
  PERFORM sb_whole('tasks.retry_count', t.retry_count, 4294967295);
  t.started_at := sb_time('tasks.started_at', t.started_at);
  t.claimed_at := sb_time('tasks.claimed_at', t.claimed_at);
  t.completed_at := sb_time('tasks.completed_at', t.completed_at);
  t.next_retry_at := sb_time('tasks.next_retry_at', t.next_retry_at);
  t.updated_at := sb_time('tasks.updated_at', t.updated_at);
  RETURN t;
END $$;

-- Numbers below zero are those of rows that no hub has seen.
CREATE FUNCTION sb_tasks_new() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  missing text;
BEGIN
  NEW := sb_checked_task(NEW);
  NEW.created_at := sb_time('tasks.created_at', NEW.created_at);
  PERFORM sb_id('tasks.id', NEW.id);
  PERFORM sb_word('tasks.status of a new task', NEW.status, 'pending, ready, blocked');
  PERFORM sb_word('tasks.on_dependency_failure', NEW.on_dependency_failure, 'block, fail');
  PERFORM sb_list('tasks.dependencies', NEW.dependencies, 256, 128, true);
  SELECT needs INTO missing FROM jsonb_array_elements_text(NEW.dependencies::jsonb) AS needs
    WHERE NOT EXISTS (SELECT 1 FROM tasks known WHERE known.id = needs) LIMIT 1;
  IF FOUND THEN
    PERFORM sb_refuse(format('tasks.dependencies: there is no task %s; insert that one first', missing));
  END IF;
  IF NEW.assigned_agent IS NOT NULL THEN
    PERFORM sb_refuse('tasks.assigned_agent: a new task belongs to nobody yet; insert it, then claim it');
  END IF;
  IF NEW.number IS NOT NULL OR NEW.lane IS NOT NULL OR NEW.worked_ms IS NOT NULL OR NEW.progress IS NOT NULL
    OR (NEW.rev, NEW.epoch, NEW.state_at, NEW.dependants, NEW.corr_id) <> (0, 0, 0, 0, '')
  THEN
    PERFORM sb_refuse('tasks: number, rev, epoch, lane, state_at, worked_ms, progress, dependants and corr_id belong to the hub');
  END IF;
  NEW.number := least(0, (SELECT min(number) FROM tasks)) - 1;
  RETURN NEW;
END $$;

CREATE FUNCTION sb_task_note(t tasks, with_texts boolean) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT (to_jsonb(t) - 'description' - 'result')
    || CASE WHEN with_texts THEN jsonb_build_object('texts', jsonb_build_array(t.description, t.result)) ELSE '{}' END
$$;

CREATE FUNCTION sb_tasks_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM sb_note('tasks', NEW.id, 'insert', NULL, sb_task_note(NEW, false));
  RETURN NULL;
END $$;

-- Sees what the statement itself has seen, since it is STABLE: a task that was free then was taken while the statement
-- waited for its turn.
CREATE FUNCTION sb_tasks_overtaken() RETURNS trigger LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM tasks WHERE id = OLD.id AND status IN ('ready', 'pending')) THEN
    RAISE EXCEPTION USING ERRCODE = 'serialization_failure',
      MESSAGE = format('task %s was taken by %s meanwhile; claim again', OLD.id, coalesce(OLD.assigned_agent, 'somebody else'));
  END IF;
  RETURN NULL;
END $$;

CREATE FUNCTION sb_task_moves(was tasks, is_now tasks) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  was_held CONSTANT boolean := was.status IN ('claimed', 'in_progress');
  is_held CONSTANT boolean := is_now.status IN ('claimed', 'in_progress');
  waits_for text;
BEGIN
  IF is_now.status IS DISTINCT FROM was.status
    AND NOT EXISTS (SELECT 1 FROM sb_task_transition WHERE a = was.status AND b = is_now.status)
  THEN
    PERFORM sb_refuse(format('tasks.status: from %s to %s is not allowed; the table sb_task_transition lists what is',
      was.status, sb_says(is_now.status)));
  END IF;
  IF was.status = 'blocked' AND is_now.status = 'ready' THEN
    SELECT known.id INTO waits_for FROM jsonb_array_elements_text(was.dependencies::jsonb) AS needs
      JOIN tasks known ON known.id = needs WHERE known.status <> 'completed' LIMIT 1;
    IF FOUND THEN
      PERFORM sb_refuse(format('tasks.status: it waits for %s, which is not completed', waits_for));
    END IF;
  END IF;
  IF is_held AND NOT was_held
    AND NOT EXISTS (SELECT 1 FROM agents WHERE id = is_now.assigned_agent AND presence <> 'gone')
  THEN
    PERFORM sb_refuse(format('tasks.assigned_agent: no agent %s is registered; insert it into agents first',
      sb_says(is_now.assigned_agent)));
  END IF;
  IF was_held AND is_now.assigned_agent IS DISTINCT FROM was.assigned_agent
    AND (is_now.assigned_agent IS NOT NULL OR is_held)
  THEN
    PERFORM sb_refuse(format('tasks.assigned_agent: agent %s holds this task', was.assigned_agent));
  END IF;
  IF is_now.epoch <> was.epoch AND NOT (is_now.epoch = was.epoch + 1 AND is_held AND NOT was_held) THEN
    PERFORM sb_refuse('tasks.epoch belongs to the hub; a claim may set epoch = epoch + 1');
  END IF;
  PERFORM sb_kept('tasks', to_jsonb(was), to_jsonb(is_now),
    'id, number, created_at, dependencies, rev, lane, state_at, worked_ms, progress, dependants, corr_id, on_dependency_failure');
END $$;

CREATE FUNCTION sb_tasks_updated() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  is_now tasks := NEW;
  texts boolean := NEW.description IS DISTINCT FROM OLD.description OR NEW.result IS DISTINCT FROM OLD.result;
BEGIN
  PERFORM sb_task_moves(OLD, NEW);
  is_now := sb_checked_task(is_now);
  -- Out of the queue until it is taken in.
  is_now.lane := NULL;
  IF NEW.epoch = OLD.epoch AND NEW.status IN ('claimed', 'in_progress') AND OLD.status NOT IN ('claimed', 'in_progress') THEN
    is_now.epoch := OLD.epoch + 1;
  END IF;
  PERFORM set_config('switchboard.hub', 'on', true);
  UPDATE tasks SET lane = NULL, epoch = is_now.epoch, started_at = is_now.started_at, claimed_at = is_now.claimed_at,
    completed_at = is_now.completed_at, next_retry_at = is_now.next_retry_at, updated_at = is_now.updated_at
    WHERE number = NEW.number;
  PERFORM set_config('switchboard.hub', '', true);
  PERFORM sb_note('tasks', NEW.id, 'update', sb_task_note(OLD, texts), sb_task_note(is_now, texts));
  RETURN NULL;
END $$;

-- A task that is deleted is canceled: history stays.
CREATE FUNCTION sb_tasks_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.status IN ('completed', 'failed', 'canceled') THEN
    PERFORM sb_refuse('tasks: finished tasks are history; the hub prunes them by its [retention]');
  END IF;
  UPDATE tasks SET status = 'canceled' WHERE number = OLD.number;
  RETURN NULL;
END $$;

CREATE TRIGGER sb_tasks_1_turn BEFORE INSERT OR UPDATE OR DELETE ON tasks
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_take_turn();
CREATE TRIGGER sb_tasks_2_new BEFORE INSERT ON tasks FOR EACH ROW
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_tasks_new();
CREATE TRIGGER sb_tasks_3_deleted BEFORE DELETE ON tasks FOR EACH ROW
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_tasks_deleted();
CREATE TRIGGER sb_tasks_4_inserted AFTER INSERT ON tasks FOR EACH ROW
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_tasks_inserted();
CREATE TRIGGER sb_tasks_5_overtaken AFTER UPDATE ON tasks FOR EACH ROW
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on' AND NEW.status IN ('claimed', 'in_progress')
    AND OLD.status NOT IN ('ready', 'pending') AND NEW.assigned_agent IS DISTINCT FROM OLD.assigned_agent)
  EXECUTE FUNCTION sb_tasks_overtaken();
CREATE TRIGGER sb_tasks_6_updated AFTER UPDATE ON tasks FOR EACH ROW
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_tasks_updated();
CREATE TRIGGER sb_tasks_7_truncated BEFORE TRUNCATE ON tasks
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_no_truncate();
