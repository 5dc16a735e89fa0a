-- A DELETE counts its row: what stays for its history is put back after it.
DROP TRIGGER sb_tasks_3_deleted ON tasks;
CREATE TRIGGER sb_tasks_3_deleted AFTER DELETE ON tasks FOR EACH ROW
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_tasks_deleted();
DROP TRIGGER sb_messages_3_deleted ON messages;
CREATE TRIGGER sb_messages_3_deleted AFTER DELETE ON messages FOR EACH ROW
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_messages_deleted();

-- Agents that signed off are kept apart: strangers see only those that are there.
CREATE TABLE sb_gone_agent (LIKE agents INCLUDING DEFAULTS, PRIMARY KEY (id));
CREATE INDEX sb_gone_agent_since ON sb_gone_agent(presence_at, id);
INSERT INTO sb_gone_agent SELECT * FROM agents WHERE presence = 'gone';
SELECT set_config('switchboard.hub', 'on', true);
DELETE FROM agents WHERE presence = 'gone';
SELECT set_config('switchboard.hub', '', true);
