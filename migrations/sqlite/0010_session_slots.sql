-- session_slots: sessions that the worker runs at once. A worker says so when it registers; 0 until it has.
ALTER TABLE workers ADD COLUMN session_slots BIGINT NOT NULL DEFAULT 0;
