-- Sessions: sandboxes that members started. Rows of deleted ones are kept, for history.
CREATE TABLE sessions (
    session_id TEXT NOT NULL PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (organization_id),
    environment_id TEXT NOT NULL REFERENCES environments (environment_id),
    -- As it was when the session was started.
    definition TEXT NOT NULL,
    status TEXT NOT NULL,
    -- What was asked and is not done yet.
    wish TEXT,
    version BIGINT NOT NULL,
    sandbox_id TEXT NOT NULL,
    -- The worker, by name.
    host TEXT NOT NULL,
    record TEXT NOT NULL,
    requested_by TEXT NOT NULL REFERENCES users (user_id),
    -- Seconds that it has been stopped or failed for, counted by us: the wall clock may jump.
    kept_seconds BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    stopped_at BIGINT,
    deleted_at BIGINT
);
-- An organization's sessions, newest first.
CREATE INDEX sessions_by_organization ON sessions (organization_id, created_at, session_id)
    WHERE deleted_at IS NULL;
-- An environment's sessions.
CREATE INDEX sessions_by_environment ON sessions (environment_id) WHERE deleted_at IS NULL;
-- What a worker has to look after.
CREATE INDEX sessions_by_host ON sessions (host) WHERE deleted_at IS NULL;
