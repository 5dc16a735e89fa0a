-- Each row of the log names the hash of the row before and its own, whichever build writes it. Rows that are here
-- already have none, and what is copied from elsewhere (nobody's writer) keeps what it has.
ALTER TABLE sb_log ADD COLUMN before BYTEA, ADD COLUMN hash BYTEA;

CREATE FUNCTION sb_log_hash(before bytea, first bigint, last bigint, at bigint, body text) RETURNS bytea LANGUAGE sql STABLE AS
$$ SELECT sha256(coalesce(before, ''::bytea) || int8send(first) || int8send(last) || int8send(at) || convert_to(body, 'UTF8')) $$;

CREATE FUNCTION sb_log_chain() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.before := (SELECT l.hash FROM sb_log l WHERE l.first < NEW.first ORDER BY l.first DESC LIMIT 1);
  NEW.hash := sb_log_hash(NEW.before, NEW.first, NEW.last, NEW.at, NEW.body);
  RETURN NEW;
END $$;
CREATE TRIGGER sb_log_chain BEFORE INSERT ON sb_log FOR EACH ROW WHEN (NEW.writer <> 0) EXECUTE FUNCTION sb_log_chain();
