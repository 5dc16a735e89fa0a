-- Learnings are found by their words without reading all of them.
CREATE INDEX sb_learning_words ON sb_learning USING gin (to_tsvector('simple', text));
