-- Its holder was started anew and goes on with it: reports must name the epoch.
ALTER TABLE tasks ADD COLUMN epoch_needed BIGINT NOT NULL DEFAULT 0;

-- This column belongs to the hub as well.
CREATE FUNCTION sb_resumed_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    NEW.epoch_needed := 0;
  ELSE
    PERFORM sb_kept('tasks', to_jsonb(OLD), to_jsonb(NEW), 'epoch_needed');
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER sb_tasks_9_resumed BEFORE INSERT OR UPDATE ON tasks FOR EACH ROW
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_resumed_kept();
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION sb_resumed_kept() SECURITY DEFINER SET search_path = %I, pg_temp', current_schema());
END $$;
