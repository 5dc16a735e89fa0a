-- Which instant of the ledger belongs to which reading of a machine's clocks.
ALTER TABLE sb_head ADD COLUMN clock_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sb_head ADD COLUMN clock_wall INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sb_head ADD COLUMN clock_boot TEXT NOT NULL DEFAULT '';
ALTER TABLE sb_head ADD COLUMN clock_ran_ms INTEGER NOT NULL DEFAULT 0;
