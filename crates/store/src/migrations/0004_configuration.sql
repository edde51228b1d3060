CREATE TABLE provider (
    id          TEXT PRIMARY KEY,
    spec        TEXT NOT NULL,
    version     BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    changed_at  BIGINT NOT NULL
);
CREATE TABLE provider_mark (id TEXT PRIMARY KEY, paused INTEGER NOT NULL, favorite INTEGER NOT NULL);
CREATE TABLE model (
    provider  TEXT NOT NULL,
    id        TEXT NOT NULL,
    position  BIGINT NOT NULL,
    spec      TEXT NOT NULL,
    PRIMARY KEY (provider, id)
);
CREATE TABLE fallback (
    id               BIGINT PRIMARY KEY,
    provider         TEXT NOT NULL,
    position         BIGINT NOT NULL,
    target_provider  TEXT NOT NULL,
    target_model     TEXT,
    UNIQUE (provider, target_provider, target_model)
);
CREATE TABLE combo (
    id          TEXT PRIMARY KEY,
    spec        TEXT NOT NULL,
    version     BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    changed_at  BIGINT NOT NULL
);
CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL, changed_at BIGINT NOT NULL);
CREATE TABLE user_rule (name TEXT PRIMARY KEY, toml TEXT NOT NULL, version BIGINT NOT NULL, changed_at BIGINT NOT NULL);
