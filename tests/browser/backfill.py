#!/usr/bin/env python3
"""Gives a data folder a past: a day of traffic, so that charts and strips have something to show."""

import math
import sqlite3
import sys
import time

HALF_HOUR = 1_800_000


def main() -> None:
    database = sqlite3.connect(f"{sys.argv[1]}/backstop.db")
    now = int(time.time() * 1000) // HALF_HOUR
    keys = database.execute("SELECT id, provider FROM api_key ORDER BY id").fetchall()
    providers = sorted({provider for _, provider in keys})
    for back in range(1, 48):
        day = 1 + 0.7 * math.sin((now - back) / 48 * 2 * math.pi)
        for place, provider in enumerate(providers):
            requests = int(day * (90 - 25 * place)) + back * 7 % 11
            masked, failed = requests // 14 + back % 3, (back % 9 == 0) * 2
            database.execute(
                "INSERT INTO traffic (slot, provider, model, requests, failed, timeouts, masked, duration_ms, input_tokens,"
                " output_tokens, cost_micros, attempts, begun, first_content_ms) VALUES (?, ?, 'large', ?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?)",
                (now - back, provider, requests, failed, masked, requests * 4200, requests * 3100, requests * 420, requests * 1900,
                 requests + masked, requests, requests * 840),
            )
        for place, (key, _) in enumerate(keys):
            phase = (back * 5 + place * 13) % 37
            if (back + place * 5) % 48 > 40 or place % 10 == 9:
                continue
            rested = int(phase in (3, 4, 5))
            succeeded = 0 if rested else 6 + phase % 5
            failed = 9 if phase == 7 else 1 if phase in (2, 8) else 0
            database.execute(
                "INSERT INTO key_traffic (slot, key_id, succeeded, failed, last_at, rested) VALUES (?, ?, ?, ?, ?, ?)",
                (now - back, key, succeeded, failed, (now - back) * HALF_HOUR, rested),
            )
    database.execute(
        "INSERT INTO key_total (key_id, succeeded, failed, last_at)"
        " SELECT key_id, SUM(succeeded), SUM(failed), MAX(last_at) FROM key_traffic GROUP BY key_id"
        " ON CONFLICT (key_id) DO NOTHING"
    )
    database.commit()


main()
