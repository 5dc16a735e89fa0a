-- The column belongs to the hub.
CREATE FUNCTION sb_stream_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' THEN
    PERFORM sb_kept('agents', to_jsonb(OLD), to_jsonb(NEW), 'stream');
  ELSE
    NEW.stream := '{}';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER sb_agents_7_stream BEFORE INSERT OR UPDATE ON agents FOR EACH ROW
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_stream_kept();
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION sb_stream_kept() SECURITY DEFINER SET search_path = %I, pg_temp', current_schema());
END $$;
