COMMENT ON COLUMN sb_head.epoch IS 'of the ledger: raised by the hub that finds less here than was acknowledged';
COMMENT ON COLUMN sb_head.epoch_after IS 'events up to here are those of the epoch before';
