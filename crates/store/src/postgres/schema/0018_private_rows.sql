-- Private rows: whose they are, their place among those, and when somebody must look at them again.
ALTER TABLE sb_record ADD COLUMN owner TEXT COLLATE "C";
ALTER TABLE sb_record ADD COLUMN position BIGINT;
ALTER TABLE sb_record ADD COLUMN due_at BIGINT;
CREATE INDEX sb_record_owned ON sb_record(kind, owner, position, key) WHERE position IS NOT NULL;
CREATE INDEX sb_record_due ON sb_record(due_at, kind, key) WHERE due_at IS NOT NULL;

-- A build that does not know these columns says no version, and leaves an instant there that no longer holds.
CREATE FUNCTION sb_record_older() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.due_at := NULL;
  RETURN NEW;
END $$;
CREATE TRIGGER sb_record_older BEFORE UPDATE ON sb_record FOR EACH ROW
  WHEN (NEW.due_at IS NOT NULL AND NEW.value NOT LIKE '{"v":%') EXECUTE FUNCTION sb_record_older();

-- Engrams are such rows: one each for what the catalog has of them, and for the text. They are listed by version.
CREATE FUNCTION sb_engram_place(version text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce(nullif(left(regexp_replace(version, '[^0-9]', '', 'g'), 18), ''), '0')::bigint
$$;
INSERT INTO sb_record(kind, key, owner, position, value)
  SELECT 'engram', id, '', sb_engram_place(version),
    json_build_object('v', 1, 'kind', 'engram', 'id', id, 'scope', scope, 'version', version, 'created_at', created_at,
      'hash', hash, 'bytes', bytes, 'topics', topics::json, 'from_seq', from_seq, 'to_seq', to_seq)
  FROM sb_engram;
INSERT INTO sb_record(kind, key, owner, position, value)
  SELECT 'engram_text', id, '', sb_engram_place(version),
    json_build_object('v', 1, 'kind', 'engram_text', 'id', id, 'position', sb_engram_place(version), 'body', body,
      'words', words)
  FROM sb_engram;
DROP TABLE sb_engram;
CREATE INDEX sb_record_words ON sb_record USING gin (to_tsvector('simple', regexp_replace(
  replace(value, '\u0000', '\u0020')::json ->> 'words', '[[:punct:]]+', ' ', 'g'))) WHERE kind = 'engram_text';

-- Builds that know a table of engrams find it here.
CREATE VIEW sb_engram AS
  SELECT e.position AS n, e.key AS id, e.value::json ->> 'scope' AS scope, e.value::json ->> 'version' AS version,
    (e.value::json ->> 'created_at')::bigint AS created_at, e.value::json ->> 'hash' AS hash,
    (e.value::json ->> 'bytes')::bigint AS bytes, e.value::json ->> 'topics' AS topics,
    (e.value::json ->> 'from_seq')::bigint AS from_seq, (e.value::json ->> 'to_seq')::bigint AS to_seq,
    t.value::json ->> 'body' AS body, t.value::json ->> 'words' AS words
  FROM sb_record e JOIN sb_record t ON t.kind = 'engram_text' AND t.key = e.key WHERE e.kind = 'engram';
CREATE FUNCTION sb_engram_older() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    DELETE FROM sb_record WHERE kind IN ('engram', 'engram_text') AND key = OLD.id;
    RETURN OLD;
  END IF;
  INSERT INTO sb_record(kind, key, owner, position, value) VALUES
    ('engram', NEW.id, '', sb_engram_place(NEW.version),
      json_build_object('v', 1, 'kind', 'engram', 'id', NEW.id, 'scope', NEW.scope, 'version', NEW.version,
        'created_at', NEW.created_at, 'hash', NEW.hash, 'bytes', NEW.bytes, 'topics', NEW.topics::json,
        'from_seq', NEW.from_seq, 'to_seq', NEW.to_seq)),
    ('engram_text', NEW.id, '', sb_engram_place(NEW.version),
      json_build_object('v', 1, 'kind', 'engram_text', 'id', NEW.id, 'position', sb_engram_place(NEW.version),
        'body', NEW.body, 'words', NEW.words));
  RETURN NEW;
END $$;
CREATE TRIGGER sb_engram_older INSTEAD OF INSERT OR DELETE ON sb_engram FOR EACH ROW EXECUTE FUNCTION sb_engram_older();
