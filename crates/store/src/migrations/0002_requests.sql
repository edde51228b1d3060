CREATE TABLE request (
    seq              BIGINT PRIMARY KEY,
    id               TEXT NOT NULL,
    at               BIGINT NOT NULL,
    client_id        BIGINT,
    client           TEXT,
    operation        TEXT NOT NULL,
    dialect          TEXT NOT NULL,
    provider         TEXT NOT NULL,
    model            TEXT,
    served_provider  TEXT,
    served_model     TEXT,
    stream           INTEGER NOT NULL,
    fallback         INTEGER NOT NULL,
    outcome          TEXT NOT NULL,
    status           INTEGER NOT NULL,
    class            TEXT,
    duration_ms      BIGINT NOT NULL,
    first_content_ms BIGINT,
    input_tokens     BIGINT,
    output_tokens    BIGINT,
    cache_read_tokens  BIGINT,
    cache_write_tokens BIGINT,
    cost_micros      BIGINT,
    cost_reported    INTEGER NOT NULL
);
CREATE INDEX request_by_id ON request (id);
CREATE INDEX request_by_time ON request (at);

CREATE TABLE attempt (
    request_seq  BIGINT NOT NULL,
    ordinal      INTEGER NOT NULL,
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
    message      TEXT,
    PRIMARY KEY (request_seq, ordinal)
);

CREATE TABLE request_body (
    request_seq BIGINT PRIMARY KEY,
    at          BIGINT NOT NULL,
    sealed      BLOB NOT NULL
);

CREATE TABLE traffic (
    slot          BIGINT NOT NULL,
    provider      TEXT NOT NULL,
    model         TEXT NOT NULL,
    requests      BIGINT NOT NULL,
    failed        BIGINT NOT NULL,
    timeouts      BIGINT NOT NULL,
    masked        BIGINT NOT NULL,
    duration_ms   BIGINT NOT NULL,
    input_tokens  BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cost_micros   BIGINT NOT NULL,
    PRIMARY KEY (slot, provider, model)
);
CREATE TABLE key_traffic (
    slot      BIGINT NOT NULL,
    key_id    BIGINT NOT NULL,
    succeeded BIGINT NOT NULL,
    failed    BIGINT NOT NULL,
    last_at   BIGINT NOT NULL,
    PRIMARY KEY (key_id, slot)
);

CREATE TABLE key_total (
    key_id    BIGINT PRIMARY KEY,
    succeeded BIGINT NOT NULL,
    failed    BIGINT NOT NULL,
    last_at   BIGINT NOT NULL
);

CREATE TABLE unknown_failure (
    shape      TEXT PRIMARY KEY,
    provider   TEXT NOT NULL,
    kind       TEXT NOT NULL,
    status     INTEGER,
    text       TEXT NOT NULL,
    evidence   TEXT NOT NULL,
    count      BIGINT NOT NULL,
    first_at   BIGINT NOT NULL,
    last_at    BIGINT NOT NULL,
    state      TEXT NOT NULL
);
