-- Old requests are found by their order.
DROP INDEX IF EXISTS request_by_time;

-- The id is the request's seq * 1024 + the attempt's place: a second index would cost more than the row. Attempts that were
-- logged in another form are let go.
DROP TABLE attempt;
CREATE TABLE attempt (
    id           BIGINT PRIMARY KEY,
    after_ms     BIGINT NOT NULL,
    provider     TEXT NOT NULL,
    model        TEXT NOT NULL,
    key_id       BIGINT NOT NULL,
    key_label    TEXT NOT NULL,
    status       INTEGER,
    class        TEXT,
    scope        TEXT,
    reason       TEXT,
    basis        TEXT,
    matched      TEXT,
    waited_ms    BIGINT NOT NULL,
    took_ms      BIGINT NOT NULL,
    upstream_id  TEXT,
    message      TEXT
);
