-- Its holder was started anew and goes on with it: reports must name the epoch.
ALTER TABLE tasks ADD COLUMN epoch_needed INTEGER NOT NULL DEFAULT 0;
