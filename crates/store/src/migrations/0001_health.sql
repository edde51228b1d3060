CREATE TABLE health (subject TEXT PRIMARY KEY, state TEXT NOT NULL, changed_at BIGINT NOT NULL);
CREATE TABLE quota (subject TEXT PRIMARY KEY, state TEXT NOT NULL, changed_at BIGINT NOT NULL);

CREATE TABLE key_error (
    id         BIGINT PRIMARY KEY,
    key_id     BIGINT NOT NULL,
    at         BIGINT NOT NULL,
    request    TEXT,
    model      TEXT,
    status     INTEGER,
    class      TEXT NOT NULL,
    scope      TEXT NOT NULL,
    reason     TEXT NOT NULL,
    basis      TEXT NOT NULL,
    action     TEXT NOT NULL,
    message    TEXT NOT NULL
);
CREATE INDEX key_error_by_key ON key_error (key_id, id);
