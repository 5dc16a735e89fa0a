
-- Quality. Snapshots are not noted: a task that points to one says what it is for.

CREATE FUNCTION sb_measured(tbl text, measured jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY '{type_errors,lint_errors,lint_warnings,tests_passing,tests_failing}'::text[] LOOP
    PERFORM sb_whole(tbl || '.' || name, (measured ->> name)::bigint, 4294967295);
  END LOOP;
  PERFORM sb_whole(tbl || '.build_success', (measured ->> 'build_success')::bigint, 1);
  IF (measured ->> 'test_coverage')::double precision NOT BETWEEN 0 AND 100 THEN
    PERFORM sb_refuse(format('%s.test_coverage: a number from 0 to 100, not %s', tbl, measured ->> 'test_coverage'));
  END IF;
END $$;

CREATE FUNCTION sb_snapshots_written() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM sb_id('quality_snapshots.id', NEW.id);
  PERFORM sb_bytes('quality_snapshots.task_id', NEW.task_id, 0, 128);
  PERFORM sb_bytes('quality_snapshots.agent_id', NEW.agent_id, 0, 128);
  PERFORM sb_measured('quality_snapshots', to_jsonb(NEW));
  NEW.recorded_at := sb_time('quality_snapshots.recorded_at', NEW.recorded_at);
  IF TG_OP = 'INSERT' THEN
    NEW.rowid := coalesce((SELECT max(rowid) FROM quality_snapshots), 0) + 1;
  ELSE
    PERFORM sb_kept('quality_snapshots', to_jsonb(OLD), to_jsonb(NEW), 'rowid');
  END IF;
  RETURN NEW;
END $$;

CREATE FUNCTION sb_baseline_checked() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM sb_measured('quality_baseline', to_jsonb(NEW));
  PERFORM sb_bytes('quality_baseline.set_by', NEW.set_by, 0, 128);
  NEW.created_at := sb_time('quality_baseline.created_at', NEW.created_at);
  NEW.updated_at := sb_time('quality_baseline.updated_at', NEW.updated_at);
  IF TG_OP = 'UPDATE' THEN
    PERFORM sb_kept('quality_baseline', to_jsonb(OLD), to_jsonb(NEW), 'rev');
  ELSIF NEW.rev <> 0 THEN
    PERFORM sb_refuse('quality_baseline.rev belongs to the hub');
  END IF;
  RETURN NEW;
END $$;

CREATE FUNCTION sb_baseline_written() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM sb_note('quality_baseline', '1', 'update', NULL, to_jsonb(NEW));
  RETURN NULL;
END $$;

CREATE TRIGGER sb_snapshots_1_turn BEFORE INSERT OR UPDATE OR DELETE ON quality_snapshots
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_take_turn();
CREATE TRIGGER sb_snapshots_2_written BEFORE INSERT OR UPDATE ON quality_snapshots FOR EACH ROW
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_snapshots_written();
CREATE TRIGGER sb_baseline_1_turn BEFORE INSERT OR UPDATE OR DELETE ON quality_baseline
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_take_turn();
CREATE TRIGGER sb_baseline_2_checked BEFORE INSERT OR UPDATE ON quality_baseline FOR EACH ROW
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_baseline_checked();
CREATE TRIGGER sb_baseline_3_written AFTER INSERT OR UPDATE ON quality_baseline FOR EACH ROW
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_baseline_written();

-- Triggers find the ledger's tables wherever the client looks for its own, and write private ones on behalf of roles that
-- may write the public ones.
DO $$
DECLARE
  one regprocedure;
BEGIN
  FOR one IN SELECT oid FROM pg_proc
    WHERE pronamespace = current_schema()::regnamespace AND proname LIKE 'sb\_%' AND prorettype = 'trigger'::regtype
  LOOP
    EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', one, current_schema());
  END LOOP;
END $$;
