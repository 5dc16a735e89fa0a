-- Each row of the log names the hash of the row before and its own. Rows that are here already have none.
ALTER TABLE sb_log ADD COLUMN before BLOB;
ALTER TABLE sb_log ADD COLUMN hash BLOB;
