-- A hub that wrote the row before knows its hash, and brings the new one along.
CREATE OR REPLACE FUNCTION sb_log_chain() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.hash IS NULL THEN
    NEW.before := (SELECT l.hash FROM sb_log l WHERE l.first < NEW.first ORDER BY l.first DESC LIMIT 1);
    -- As sb_log_hash has it.
    NEW.hash := sha256(coalesce(NEW.before, ''::bytea) || int8send(NEW.first) || int8send(NEW.last) || int8send(NEW.at)
      || convert_to(NEW.body, 'UTF8'));
  END IF;
  RETURN NEW;
END $$;
