-- While work is paused a claim by hand finds nothing, and is no error. A pause that is over is taken away by the hub.
CREATE FUNCTION sb_tasks_paused() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM sb_record WHERE kind = 'director'
    AND coalesce(value::jsonb ->> 'paused', value::jsonb ->> 'cooldown_until') IS NOT NULL)
  THEN
    RETURN NULL;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER sb_tasks_2_paused BEFORE UPDATE ON tasks FOR EACH ROW
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on' AND NEW.status IN ('claimed', 'in_progress')
    AND OLD.status NOT IN ('claimed', 'in_progress'))
  EXECUTE FUNCTION sb_tasks_paused();
-- It runs for whoever may write the public tables, and looks nowhere else.
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION sb_tasks_paused() SECURITY DEFINER SET search_path = %I, pg_temp', current_schema());
END $$;
