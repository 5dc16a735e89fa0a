-- The protocol document's claim, verbatim: its order of tasks by index, and its way through a JSON array.
CREATE INDEX sb_tasks_claims ON tasks((CASE priority WHEN 'critical' THEN 0 WHEN 'high' THEN 1 WHEN 'medium' THEN 2 WHEN 'low' THEN 3 END),
  created_at) WHERE status = 'ready';
CREATE FUNCTION json_each(list text) RETURNS TABLE(key bigint, value text) LANGUAGE sql IMMUTABLE AS
$$ SELECT at - 1, item FROM jsonb_array_elements_text(list::jsonb) WITH ORDINALITY AS items(item, at) $$;
