-- How urgent a delivery is, from 0 for critical to 3 for low, NULL for medium; through which door and which stream it
-- went or is on its way; why it failed, in a row that is else an expired one. Builds that do not know these leave them.
ALTER TABLE sb_delivery ADD COLUMN prio BIGINT, ADD COLUMN via TEXT, ADD COLUMN stream TEXT, ADD COLUMN reason TEXT;
CREATE INDEX sb_delivery_prio ON sb_delivery(agent, prio, number) WHERE state = 'queued' AND prio IS NOT NULL;
