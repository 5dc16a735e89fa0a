-- Epochs of the ledger: after a failover that lost something, numbers of events are given once more.
ALTER TABLE sb_head ADD COLUMN epoch BIGINT NOT NULL DEFAULT 1;
ALTER TABLE sb_head ADD COLUMN epoch_after BIGINT NOT NULL DEFAULT 0;
