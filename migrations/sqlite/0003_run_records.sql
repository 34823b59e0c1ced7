-- What is kept of a run beside its log, and as long as its log: hosts asked for, seconds per script line.

-- position: order of first attempt. asked: how often.
CREATE TABLE setup_run_hosts (
    setup_run_id TEXT NOT NULL REFERENCES setup_runs (setup_run_id) ON DELETE CASCADE,
    host TEXT NOT NULL,
    port BIGINT NOT NULL,
    outcome TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    position BIGINT NOT NULL,
    rule BIGINT,
    redirected_from TEXT,
    script_line BIGINT,
    asked BIGINT NOT NULL,
    PRIMARY KEY (setup_run_id, host, port, outcome)
);

-- timings: [{"line": 1, "micros": 1200}, ...] in order of first run.
CREATE TABLE setup_run_timings (
    setup_run_id TEXT NOT NULL PRIMARY KEY REFERENCES setup_runs (setup_run_id) ON DELETE CASCADE,
    attempt BIGINT NOT NULL,
    timings TEXT NOT NULL
);
