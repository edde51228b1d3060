CREATE TABLE notification (
    id        BIGINT PRIMARY KEY,
    at        BIGINT NOT NULL,
    kind      TEXT NOT NULL,
    severity  TEXT NOT NULL,
    subject   TEXT NOT NULL,
    text      TEXT NOT NULL,
    read_at   BIGINT
);
CREATE TABLE alert_stamp (subject TEXT PRIMARY KEY, state TEXT NOT NULL, changed_at BIGINT NOT NULL);
CREATE TABLE outbox (
    id        BIGINT PRIMARY KEY,
    channel   TEXT NOT NULL,
    payload   TEXT NOT NULL,
    tries     BIGINT NOT NULL,
    due_at    BIGINT NOT NULL,
    queued_at BIGINT NOT NULL,
    error     TEXT
);
CREATE TABLE seat (subject TEXT PRIMARY KEY, state TEXT NOT NULL, changed_at BIGINT NOT NULL);
CREATE TABLE context_length (subject TEXT PRIMARY KEY, state TEXT NOT NULL, changed_at BIGINT NOT NULL);
CREATE TABLE upstream_object (subject TEXT PRIMARY KEY, state TEXT NOT NULL, changed_at BIGINT NOT NULL);
CREATE TABLE secret_value (name TEXT PRIMARY KEY, sealed BLOB NOT NULL, version BIGINT NOT NULL, changed_at BIGINT NOT NULL);
CREATE TABLE session (
    hash        BLOB PRIMARY KEY,
    created_at  BIGINT NOT NULL,
    seen_at     BIGINT NOT NULL,
    agent       TEXT NOT NULL
);
CREATE TABLE audit (
    id       BIGINT PRIMARY KEY,
    at       BIGINT NOT NULL,
    actor    TEXT NOT NULL,
    action   TEXT NOT NULL,
    subject  TEXT NOT NULL,
    detail   TEXT NOT NULL
);
CREATE TABLE boot (
    id        BIGINT PRIMARY KEY,
    began_at  BIGINT NOT NULL,
    ended_at  BIGINT,
    clean     INTEGER NOT NULL,
    traffic   INTEGER NOT NULL,
    success   INTEGER NOT NULL
);
