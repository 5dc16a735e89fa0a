-- Private rows: whose they are, their place among those, and when somebody must look at them again.
ALTER TABLE sb_record ADD COLUMN owner TEXT;
ALTER TABLE sb_record ADD COLUMN position INTEGER;
ALTER TABLE sb_record ADD COLUMN due_at INTEGER;
CREATE INDEX sb_record_owned ON sb_record(kind, owner, position, key) WHERE position IS NOT NULL;
CREATE INDEX sb_record_due ON sb_record(due_at, kind, key) WHERE due_at IS NOT NULL;

-- Engrams are such rows: one each for what the catalog has of them, and for the text. They are listed by version.
INSERT INTO sb_record(kind, key, owner, position, value)
  SELECT 'engram', id, '', CAST(replace(replace(version, '-', ''), 'Z', '') AS INTEGER),
    json_object('v', 1, 'kind', 'engram', 'id', id, 'scope', scope, 'version', version, 'created_at', created_at, 'hash', hash,
      'bytes', bytes, 'topics', json(topics), 'from_seq', from_seq, 'to_seq', to_seq)
  FROM sb_engram;
INSERT INTO sb_record(kind, key, owner, position, value)
  SELECT 'engram_text', id, '', CAST(replace(replace(version, '-', ''), 'Z', '') AS INTEGER),
    json_object('v', 1, 'kind', 'engram_text', 'id', id,
      'position', CAST(replace(replace(version, '-', ''), 'Z', '') AS INTEGER), 'body', body, 'words', words)
  FROM sb_engram;
DROP TABLE sb_engram_words;
CREATE VIRTUAL TABLE sb_engram_words USING fts5(key UNINDEXED, words);
INSERT INTO sb_engram_words(key, words) SELECT id, words FROM sb_engram;
DROP TABLE sb_engram;
