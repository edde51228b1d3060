CREATE TABLE sequence (name TEXT PRIMARY KEY, last BIGINT NOT NULL);
CREATE TABLE vault (id INTEGER PRIMARY KEY, wrapped BLOB NOT NULL, created_at BIGINT NOT NULL);

CREATE TABLE api_key (
    id           BIGINT PRIMARY KEY,
    provider     TEXT NOT NULL,
    label        TEXT NOT NULL,
    account      TEXT,
    origin       TEXT NOT NULL,
    present      INTEGER NOT NULL,
    position     BIGINT NOT NULL,
    hint         TEXT NOT NULL,
    fingerprint  BLOB NOT NULL,
    sealed       BLOB,
    version      BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    tested_at    BIGINT,
    test         TEXT
);
CREATE UNIQUE INDEX api_key_by_fingerprint ON api_key (provider, fingerprint);

CREATE TABLE client (
    id          BIGINT PRIMARY KEY,
    name        TEXT NOT NULL,
    origin      TEXT NOT NULL,
    prefix      TEXT NOT NULL,
    hash        BLOB NOT NULL,
    limits      TEXT NOT NULL,
    created_at  BIGINT NOT NULL,
    expires_at  BIGINT,
    revoked_at  BIGINT,
    used_at     BIGINT,
    version     BIGINT NOT NULL
);
CREATE UNIQUE INDEX client_by_hash ON client (hash);
