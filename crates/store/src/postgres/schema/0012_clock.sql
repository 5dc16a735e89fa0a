-- Which instant of the ledger belongs to which reading of the database's clock, and of a coordinator's machine.
ALTER TABLE sb_head ADD COLUMN clock_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sb_head ADD COLUMN clock_wall BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sb_head ADD COLUMN clock_boot TEXT NOT NULL DEFAULT '';
ALTER TABLE sb_head ADD COLUMN clock_ran_ms BIGINT NOT NULL DEFAULT 0;

-- What is written by hand is held against the ledger's time: where it was when a hub last wrote, and what the database's clock
-- has counted since. Whoever writes need not be able to read the head.
CREATE OR REPLACE FUNCTION sb_now() RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT to_char(to_timestamp(coalesce(max(CASE WHEN clock_wall > 0 THEN clock_at + greatest(0, wall - clock_wall) END), wall) / 1000.0)
    AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
  FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS wall) AS clock LEFT JOIN sb_head ON true GROUP BY wall
$$;
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION sb_now() SECURITY DEFINER SET search_path = %I, pg_temp', current_schema());
END $$;
