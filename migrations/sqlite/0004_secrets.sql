-- Secret variables. Values are sealed under a key that is not in the database.

-- {"NAME": keyed hash of name and value, ...}: part of the fingerprint, changed together with the rows below.
ALTER TABLE environments ADD COLUMN secret_hashes TEXT NOT NULL DEFAULT '{}';

-- sealed: nonce and ciphertext, base64. bytes: of the value in clear, for the limit.
CREATE TABLE environment_secrets (
    environment_id TEXT NOT NULL REFERENCES environments (environment_id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    sealed TEXT NOT NULL,
    bytes BIGINT NOT NULL,
    set_by TEXT NOT NULL REFERENCES users (user_id),
    set_at BIGINT NOT NULL,
    PRIMARY KEY (environment_id, name)
);
