-- What is written into the public tables by hand: refused here if no rule allows it, else noted, and taken in by a hub
-- with its next batch. A hub's own transactions carry switchboard.hub = on, and no trigger looks at what they write.

CREATE TABLE sb_hand (
  n      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tbl    TEXT NOT NULL,
  key    TEXT COLLATE "C" NOT NULL,
  deed   TEXT NOT NULL,
  was    JSONB,
  became JSONB
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE sb_hand ALTER COLUMN was SET STORAGE EXTERNAL, ALTER COLUMN became SET STORAGE EXTERNAL;
CREATE INDEX sb_hand_row ON sb_hand(tbl, key, n);

-- There are notes that no batch has taken in yet.
ALTER TABLE sb_head ADD COLUMN by_hand BIGINT NOT NULL DEFAULT 0;

-- Agents that registered by SQL: each gets its own copy of a broadcast. Everyone's own row is dealt with.
CREATE TABLE sb_sql_agent (id TEXT COLLATE "C" PRIMARY KEY NOT NULL);
ALTER TABLE messages ADD COLUMN copy_of BIGINT;
CREATE INDEX sb_messages_copies ON messages(copy_of) WHERE copy_of IS NOT NULL;
UPDATE messages SET delivered_at = created_at, acknowledged_at = coalesce(acknowledged_at, created_at) WHERE to_agent IS NULL;

-- The changes of status that a hand may make.
CREATE TABLE sb_task_transition (
  a TEXT NOT NULL,
  b TEXT NOT NULL,
  PRIMARY KEY (a, b)
);
INSERT INTO sb_task_transition(a, b)
SELECT a, unnest(string_to_array(b, ' ')) FROM (VALUES
  ('pending', 'ready blocked claimed canceled'),
  ('ready', 'pending claimed in_progress canceled'),
  ('blocked', 'pending ready canceled'),
  ('claimed', 'in_progress completed failed pending_retry needs_review ready pending canceled'),
  ('in_progress', 'claimed completed failed pending_retry needs_review ready pending canceled'),
  ('pending_retry', 'ready pending failed canceled'),
  ('needs_review', 'completed ready failed canceled'),
  ('failed', 'ready pending'),
  ('canceled', 'ready pending')
) AS allowed(a, b);

CREATE FUNCTION sb_refuse(sentence text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = sentence;
END $$;

-- Fails once a transaction has held the ledger for too long.
CREATE FUNCTION sb_turn_lasts() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF extract(epoch FROM clock_timestamp()) > current_setting('switchboard.turn_until')::double precision THEN
    PERFORM sb_refuse('everybody waits while you write, and 3 s have passed; write less in one transaction');
  END IF;
END $$;

-- A statement takes its turn as a hub's batch does, before it touches a row. Whoever then idles, or goes on for too
-- long, loses it.
CREATE FUNCTION sb_take_turn() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF coalesce(current_setting('switchboard.turn_until', true), '') = '' THEN
    PERFORM set_config('lock_timeout', '4s', true), set_config('statement_timeout', '3s', true),
      set_config('idle_in_transaction_session_timeout', '2s', true);
    PERFORM pg_advisory_xact_lock('sb_head'::regclass::oid::bigint);
    PERFORM 1 FROM sb_head WHERE id = 1 FOR UPDATE;
    PERFORM set_config('switchboard.turn_until', (extract(epoch FROM clock_timestamp()) + 3)::text, true);
  END IF;
  PERFORM sb_turn_lasts();
  RETURN NULL;
END $$;

CREATE FUNCTION sb_note(tbl text, key text, deed text, was jsonb, became jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM sb_turn_lasts();
  INSERT INTO sb_hand(tbl, key, deed, was, became) VALUES (tbl, key, deed, was, became);
  UPDATE sb_head SET by_hand = 1 WHERE id = 1 AND by_hand = 0;
  IF FOUND THEN
    PERFORM pg_notify('switchboard', 'hand');
  END IF;
END $$;

CREATE FUNCTION sb_no_truncate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM sb_refuse(format('%s: TRUNCATE would erase what happened; use DELETE', TG_TABLE_NAME));
  RETURN NULL;
END $$;

-- Conditions on single columns, each with the sentence that a client reads when it breaks one. NULL is the column's
-- own affair.

CREATE FUNCTION sb_says(value text) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT quote_nullable(CASE WHEN length(value) > 60 THEN left(value, 60) || '…' ELSE value END) $$;

CREATE FUNCTION sb_id(name text, value text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF octet_length(value) NOT BETWEEN 1 AND 128 OR value ~ '[\u0001-\u0020\u007f]' THEN
    PERFORM sb_refuse(format('%s: text of 1 to 128 bytes without spaces or control characters, not %s', name, sb_says(value)));
  END IF;
END $$;

CREATE FUNCTION sb_bytes(name text, value text, shortest integer, longest integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF octet_length(value) NOT BETWEEN shortest AND longest OR (shortest > 0 AND btrim(value) = '') THEN
    PERFORM sb_refuse(format('%s: text of %s to %s bytes; this one has %s', name, shortest, longest, octet_length(value)));
  END IF;
END $$;

CREATE FUNCTION sb_word(name text, value text, words text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF value <> ALL (string_to_array(words, ', ')) THEN
    PERFORM sb_refuse(format('%s: one of %s, not %s', name, words, sb_says(value)));
  END IF;
END $$;

CREATE FUNCTION sb_whole(name text, value bigint, most bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF value NOT BETWEEN 0 AND most THEN
    PERFORM sb_refuse(format('%s: a whole number from 0 to %s, not %s', name, most, value));
  END IF;
END $$;

-- A JSON array of short texts; plain ones are without control characters.
CREATE FUNCTION sb_list(name text, value text, items integer, bytes integer, plain boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  list jsonb;
BEGIN
  IF value = '[]' THEN
    RETURN;
  END IF;
  -- With room for quotes, commas and escapes.
  IF octet_length(value) <= items * (bytes + 16) THEN
    BEGIN
      list := value::jsonb;
    EXCEPTION WHEN data_exception THEN
      list := NULL;
    END;
  END IF;
  IF jsonb_typeof(list) = 'array' THEN
    IF jsonb_array_length(list) <= items AND NOT EXISTS (
      SELECT 1 FROM jsonb_array_elements(list) AS one WHERE jsonb_typeof(one) <> 'string'
        OR octet_length(one #>> '{}') NOT BETWEEN 1 AND bytes OR (plain AND (one #>> '{}') ~ '[\u0001-\u001f\u007f]'))
    THEN
      RETURN;
    END IF;
  END IF;
  PERFORM sb_refuse(format('%s: a JSON array of at most %s strings of 1 to %s bytes, not %s', name, items, bytes, sb_says(value)));
END $$;

-- The instant in the one form in which instants are kept, so that they compare as texts. What says nothing of a zone
-- is meant as UTC.
CREATE FUNCTION sb_time(name text, value text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  instant timestamptz;
BEGIN
  IF octet_length(value) <= 40 AND value ~ '^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d' THEN
    BEGIN
      instant := CASE WHEN value ~ '(Z|[+-]\d\d(:?\d\d)?)$' THEN value ELSE value || 'Z' END;
    EXCEPTION WHEN data_exception THEN
      instant := NULL;
    END;
  END IF;
  IF value IS NOT NULL AND (instant >= '0001-01-01Z' AND instant < '10000-01-01Z') IS NOT TRUE THEN
    PERFORM sb_refuse(format('%s: a time such as 2026-01-31T23:59:59.000Z or 2026-01-31 23:59:59, not %s', name, sb_says(value)));
  END IF;
  RETURN to_char(instant AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
END $$;

-- Columns that only a hub changes.
CREATE FUNCTION sb_kept(tbl text, was jsonb, is_now jsonb, columns text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  changed text;
BEGIN
  SELECT one INTO changed FROM unnest(string_to_array(columns, ', ')) AS one WHERE was -> one IS DISTINCT FROM is_now -> one LIMIT 1;
  IF FOUND THEN
    PERFORM sb_refuse(format('%s.%s belongs to the hub; leave it as it is', tbl, changed));
  END IF;
END $$;
