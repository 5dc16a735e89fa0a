
-- Messages.

CREATE FUNCTION sb_messages_new() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM sb_id('messages.id', NEW.id);
  PERFORM sb_id('messages.from_agent', NEW.from_agent);
  IF octet_length(NEW.type) NOT BETWEEN 1 AND 128 OR NEW.type ~ '[\u0001-\u0020\u007f]' OR NEW.type !~ '^(custom|.+\..+)$' THEN
    PERFORM sb_refuse(format('messages.type: custom, or words with dots between such as info.discovery, not %s', sb_says(NEW.type)));
  END IF;
  IF NEW.to_agent IS NOT NULL AND NOT EXISTS (SELECT 1 FROM agents WHERE id = NEW.to_agent) THEN
    PERFORM sb_refuse(format('messages.to_agent: no agent %s was ever seen; NULL sends to everyone', sb_says(NEW.to_agent)));
  END IF;
  PERFORM sb_bytes('messages.payload', NEW.payload, 0, 262144);
  PERFORM sb_whole('messages.ack_required', NEW.ack_required, 1);
  IF NEW.delivered_at IS NOT NULL OR NEW.acknowledged_at IS NOT NULL OR NEW.acknowledged_by IS NOT NULL THEN
    PERFORM sb_refuse('messages: a new one is neither delivered nor acknowledged');
  END IF;
  IF NEW.number IS NOT NULL OR NEW.handoff_task IS NOT NULL OR NEW.handoff_epoch IS NOT NULL OR NEW.copy_of IS NOT NULL
    OR (NEW.rev, NEW.corr_id) <> (0, '')
  THEN
    PERFORM sb_refuse('messages: number and the columns after created_at belong to the hub');
  END IF;
  NEW.expires_at := sb_time('messages.expires_at', NEW.expires_at);
  NEW.created_at := sb_time('messages.created_at', NEW.created_at);
  NEW.number := least(0, (SELECT min(number) FROM messages)) - 1;
  RETURN NEW;
END $$;

-- One who acknowledges without a name is the one it was sent to. Of a broadcast each agent has a copy.
CREATE FUNCTION sb_message_note(m messages) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT (to_jsonb(m) - 'payload') || jsonb_build_object('acknowledged_by', coalesce(m.acknowledged_by, m.to_agent),
    'reader', CASE WHEN m.copy_of IS NOT NULL THEN m.to_agent END)
$$;

CREATE FUNCTION sb_messages_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM sb_note('messages', NEW.id, 'insert', NULL, sb_message_note(NEW));
  RETURN NULL;
END $$;

CREATE FUNCTION sb_messages_updated() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  is_now messages := NEW;
BEGIN
  PERFORM sb_kept('messages', to_jsonb(OLD), to_jsonb(NEW), 'number, id, type, from_agent, to_agent, payload, ack_required,'
    || ' expires_at, created_at, rev, corr_id, handoff_task, handoff_epoch, copy_of');
  IF OLD.to_agent IS NULL THEN
    -- A flag on everyone's row would be one flag for all.
    is_now := OLD;
  ELSIF NEW.acknowledged_by IS DISTINCT FROM OLD.acknowledged_by AND NEW.acknowledged_by <> OLD.to_agent THEN
    PERFORM sb_refuse(format('messages.acknowledged_by: only %s, to whom it was sent, acknowledges it', OLD.to_agent));
  END IF;
  is_now.delivered_at := sb_time('messages.delivered_at', is_now.delivered_at);
  is_now.acknowledged_at := sb_time('messages.acknowledged_at', is_now.acknowledged_at);
  IF is_now IS DISTINCT FROM NEW THEN
    PERFORM set_config('switchboard.hub', 'on', true);
    UPDATE messages SET delivered_at = is_now.delivered_at, acknowledged_at = is_now.acknowledged_at,
      acknowledged_by = is_now.acknowledged_by WHERE number = NEW.number;
    PERFORM set_config('switchboard.hub', '', true);
  END IF;
  IF OLD.to_agent IS NOT NULL THEN
    PERFORM sb_note('messages', coalesce((SELECT id FROM messages WHERE number = OLD.copy_of), OLD.id), 'update',
      to_jsonb(OLD) - 'payload', sb_message_note(is_now));
  END IF;
  RETURN NULL;
END $$;

-- A message that is deleted was read: history stays.
CREATE FUNCTION sb_messages_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE messages SET delivered_at = sb_now() WHERE number = OLD.number AND delivered_at IS NULL;
  RETURN NULL;
END $$;

CREATE TRIGGER sb_messages_1_turn BEFORE INSERT OR UPDATE OR DELETE ON messages
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_take_turn();
CREATE TRIGGER sb_messages_2_new BEFORE INSERT ON messages FOR EACH ROW
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_messages_new();
CREATE TRIGGER sb_messages_3_deleted BEFORE DELETE ON messages FOR EACH ROW
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_messages_deleted();
CREATE TRIGGER sb_messages_4_inserted AFTER INSERT ON messages FOR EACH ROW
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_messages_inserted();
CREATE TRIGGER sb_messages_5_updated AFTER UPDATE ON messages FOR EACH ROW
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_messages_updated();
CREATE TRIGGER sb_messages_6_truncated BEFORE TRUNCATE ON messages
  WHEN (current_setting('switchboard.hub', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION sb_no_truncate();
