-- How long a run stayed in safe mode, in milliseconds.
ALTER TABLE boot ADD COLUMN safe_for BIGINT NOT NULL DEFAULT 0;
