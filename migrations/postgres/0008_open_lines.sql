-- log_open: whether the line numbered log_open_seq, the worker's last one, may still change. Readers of pages are told to
-- come back before it.
ALTER TABLE setup_runs ADD COLUMN log_open BOOLEAN NOT NULL DEFAULT FALSE;
