-- The first tables. The same text serves SQLite and PostgreSQL; docs/database.md says how to add more.
-- Times are BIGINT microseconds since 1970 in UTC. JSON stands in TEXT and is never queried into.
-- Unique indexes are named table_column: that is the name StoreError::Constraint reports on both databases.

CREATE TABLE organizations (
    organization_id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE users (
    user_id TEXT NOT NULL PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (organization_id),
    email TEXT NOT NULL,
    display_name TEXT NOT NULL,
    role TEXT NOT NULL,
    password_hash TEXT,
    session_epoch BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    removed_at BIGINT
);
-- Signing in by address; a removed member's address can be used again.
CREATE UNIQUE INDEX users_email ON users (email) WHERE removed_at IS NULL;
-- The members page, and counting admins.
CREATE INDEX users_by_organization ON users (organization_id, created_at, user_id);

CREATE TABLE invitations (
    invitation_id TEXT NOT NULL PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (organization_id),
    email TEXT NOT NULL,
    role TEXT NOT NULL,
    token_hash TEXT NOT NULL,
    invited_by TEXT NOT NULL REFERENCES users (user_id),
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    closed_at BIGINT
);
-- Opening an invitation.
CREATE UNIQUE INDEX invitations_token_hash ON invitations (token_hash);
-- Open invitations of an organization, newest first.
CREATE INDEX invitations_open ON invitations (organization_id, created_at, invitation_id) WHERE closed_at IS NULL;

CREATE TABLE api_keys (
    api_key_id TEXT NOT NULL PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (organization_id),
    user_id TEXT NOT NULL REFERENCES users (user_id),
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    secret_hash TEXT NOT NULL,
    last_four TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    last_used_at BIGINT,
    revoked_at BIGINT
);
-- Every request with a key.
CREATE UNIQUE INDEX api_keys_secret_hash ON api_keys (secret_hash);
-- Keys of an organization, newest first.
CREATE INDEX api_keys_live ON api_keys (organization_id, created_at, api_key_id) WHERE revoked_at IS NULL;

CREATE TABLE web_sessions (
    id_hash TEXT NOT NULL PRIMARY KEY,
    data TEXT NOT NULL,
    expires_at BIGINT NOT NULL
);
-- Removing expired sign-ins.
CREATE INDEX web_sessions_by_expiry ON web_sessions (expires_at);

CREATE TABLE settings (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);

-- A row without completed_at is a claim whose request is under way.
CREATE TABLE receipts (
    organization_id TEXT NOT NULL REFERENCES organizations (organization_id),
    idempotency_key TEXT NOT NULL,
    request_hash TEXT NOT NULL,
    claimed_at BIGINT NOT NULL,
    status BIGINT,
    body TEXT,
    completed_at BIGINT,
    PRIMARY KEY (organization_id, idempotency_key)
);
-- Removing old receipts.
CREATE INDEX receipts_by_age ON receipts (claimed_at);

CREATE TABLE environments (
    environment_id TEXT NOT NULL PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (organization_id),
    version BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    definition TEXT NOT NULL,
    verification TEXT NOT NULL,
    setup_updated_by TEXT REFERENCES users (user_id),
    setup_updated_at BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT
);
-- The environments table, newest first.
CREATE INDEX environments_live ON environments (organization_id, created_at, environment_id) WHERE deleted_at IS NULL;

CREATE TABLE environment_revisions (
    environment_id TEXT NOT NULL REFERENCES environments (environment_id) ON DELETE CASCADE,
    revision BIGINT NOT NULL,
    definition TEXT NOT NULL,
    saved_by TEXT NOT NULL REFERENCES users (user_id),
    saved_at BIGINT NOT NULL,
    PRIMARY KEY (environment_id, revision)
);

CREATE TABLE workers (
    worker_id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    runtime TEXT NOT NULL,
    version TEXT NOT NULL,
    capacity BIGINT NOT NULL,
    runner_image_reference TEXT,
    runner_image_digest TEXT,
    registered_at BIGINT NOT NULL,
    seen_at BIGINT NOT NULL
);
-- A worker that starts again keeps its id.
CREATE UNIQUE INDEX workers_name ON workers (name);

-- log_lines, log_bytes, log_truncated: what readers are told. log_attempt, log_worker_seq, log_open_seq: the attempt
-- that appended last, its own number of its last line, and the number under which that line is stored (0: none).
CREATE TABLE setup_runs (
    setup_run_id TEXT NOT NULL PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (organization_id),
    environment_id TEXT NOT NULL REFERENCES environments (environment_id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    phase TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    driven BOOLEAN NOT NULL,
    cancel_requested BOOLEAN NOT NULL,
    version BIGINT NOT NULL,
    requested_by TEXT NOT NULL REFERENCES users (user_id),
    session_id TEXT,
    definition TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    record TEXT NOT NULL,
    worker_id TEXT REFERENCES workers (worker_id),
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    finished_at BIGINT,
    log_lines BIGINT NOT NULL DEFAULT 0,
    log_bytes BIGINT NOT NULL DEFAULT 0,
    log_truncated BOOLEAN NOT NULL DEFAULT FALSE,
    log_removed_at BIGINT,
    log_attempt BIGINT NOT NULL DEFAULT 0,
    log_worker_seq BIGINT NOT NULL DEFAULT 0,
    log_open_seq BIGINT NOT NULL DEFAULT 0
);
-- One run in flight per environment, however two admissions race.
CREATE UNIQUE INDEX setup_runs_environment_id ON setup_runs (environment_id)
    WHERE status IN ('queued', 'provisioning', 'running');
-- An environment's runs, newest first.
CREATE INDEX setup_runs_by_environment ON setup_runs (environment_id, created_at, setup_run_id);
-- An organization's runs in flight, for the limit.
CREATE INDEX setup_runs_in_flight ON setup_runs (organization_id, created_at, setup_run_id)
    WHERE status IN ('queued', 'provisioning', 'running');
-- The oldest run that waits for a worker.
CREATE INDEX setup_runs_waiting ON setup_runs (created_at, setup_run_id)
    WHERE driven = FALSE AND status IN ('queued', 'provisioning');
-- Runs that a worker holds.
CREATE INDEX setup_runs_driven ON setup_runs (created_at, setup_run_id) WHERE driven = TRUE;
-- Removing old logs.
CREATE INDEX setup_runs_by_end ON setup_runs (finished_at) WHERE log_removed_at IS NULL;

-- One row for each batch of lines: [[stream letter, script line or null, microseconds, text], ...], numbered from first_seq.
CREATE TABLE setup_run_logs (
    setup_run_id TEXT NOT NULL REFERENCES setup_runs (setup_run_id) ON DELETE CASCADE,
    first_seq BIGINT NOT NULL,
    last_seq BIGINT NOT NULL,
    lines TEXT NOT NULL,
    PRIMARY KEY (setup_run_id, first_seq)
);

CREATE TABLE audit_events (
    audit_id TEXT NOT NULL PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (organization_id),
    occurred_at BIGINT NOT NULL,
    user_id TEXT REFERENCES users (user_id),
    actor TEXT NOT NULL,
    source TEXT,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail TEXT NOT NULL
);
-- The audit page, newest first.
CREATE INDEX audit_events_by_time ON audit_events (organization_id, occurred_at, audit_id);
