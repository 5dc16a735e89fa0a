-- Guards of what strangers write are printed by each build from its description of the tables, and installed where none
-- of a newer build are. What is left for a trigger of its own beside them is a pause.
CREATE TABLE sb_guards (
  id      BIGINT PRIMARY KEY CHECK (id = 1),
  version BIGINT NOT NULL,
  hash    TEXT NOT NULL
);
INSERT INTO sb_guards VALUES (1, 0, '');

DROP TRIGGER sb_tasks_7_bus ON tasks;
DROP TRIGGER sb_tasks_8_bus ON tasks;
DROP TRIGGER sb_agents_7_bus ON agents;
DROP TRIGGER sb_agents_8_bus ON agents;
DROP FUNCTION sb_bus_kept(), sb_bus_new(), sb_checked_task(tasks), sb_task_moves(tasks, tasks), sb_checked_agent(agents),
  sb_checked_lease(leases), sb_measured(text, jsonb), sb_id(text, text), sb_bytes(text, text, integer, integer),
  sb_word(text, text, text), sb_whole(text, bigint, bigint), sb_list(text, text, integer, integer, boolean), sb_time(text, text),
  sb_kept(text, jsonb, jsonb, text);

-- While work is paused a claim by hand finds nothing, and is no error. A pause that is over is taken away by the hub.
CREATE FUNCTION sb_tasks_paused() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.status IN ('claimed', 'in_progress') AND OLD.status NOT IN ('claimed', 'in_progress')
    AND EXISTS (SELECT 1 FROM sb_record WHERE kind = 'director'
      AND coalesce(value::jsonb ->> 'paused', value::jsonb ->> 'cooldown_until') IS NOT NULL)
  THEN
    RETURN NULL;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER sb_tasks_2_paused BEFORE UPDATE ON tasks FOR EACH ROW
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_tasks_paused();
