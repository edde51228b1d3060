-- What was used up on a day (UTC): by provider, client key and provider key. 0 stands for none.
CREATE TABLE spend (
    day           BIGINT NOT NULL,
    provider      TEXT NOT NULL,
    client_id     BIGINT NOT NULL,
    key_id        BIGINT NOT NULL,
    requests      BIGINT NOT NULL,
    unpriced      BIGINT NOT NULL,
    input_tokens  BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cost_micros   BIGINT NOT NULL,
    PRIMARY KEY (day, provider, client_id, key_id)
);
