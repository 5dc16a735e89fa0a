-- Learnings are found by their words without reading all of them. Signs are blanks, so that a path is found by its parts.
CREATE INDEX sb_learning_words ON sb_learning USING gin (to_tsvector('simple', regexp_replace(text, '[[:punct:]]+', ' ', 'g')));
