-- What is due on the bus is found without reading all rows; engrams by their words, as learnings are.
CREATE INDEX sb_tasks_watched ON tasks(look_at) WHERE look_at IS NOT NULL;
CREATE INDEX sb_engram_words ON sb_engram USING gin (to_tsvector('simple', regexp_replace(words, '[[:punct:]]+', ' ', 'g')));
