-- What the next connection of an agent must know of the last one, as JSON; '{}' if there is nothing.
ALTER TABLE agents ADD COLUMN stream TEXT NOT NULL DEFAULT '{}';
