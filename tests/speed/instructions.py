"""Counts the instructions of the gateway beside those of nginx, and fails when the ratio has grown.

Time on a shared machine tells how busy it is; the number of instructions that a request takes is nearly the same on
every run. Both programs run under valgrind's callgrind, in front of the same scripted provider, and are counted between
two moments at which nothing is under way, all threads together, the log's writer too. The kernel's work is not counted.

    instructions.py BACKSTOP FAULTD BASELINE             compares with the baseline, a JSON file
    instructions.py BACKSTOP FAULTD BASELINE --record    writes it
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

SLACK = 1.25
CLIENT_KEY = "bk-speed-0123456789abcdef0123456789"
HERE = os.path.dirname(os.path.abspath(__file__))

SCRIPT = """
[[rule]]
when = { model = "small" }
reply = { pieces = 1, piece_bytes = 720 }

[[rule]]
when = { model = "large" }
reply = { pieces = 1, piece_bytes = 130800 }

[[rule]]
when = { model = "short" }
reply = { pieces = 2, piece_bytes = 48, events_ms = 10 }

[[rule]]
when = { model = "long" }
reply = { pieces = 102, piece_bytes = 48, events_ms = 10 }
"""

# Name, model, bytes of the request, side by side, requests of each: the counts are small since callgrind is slow.
LOADS = [
    ("request", "small", 500, 4, 100),
    ("body", "large", 128 * 1024, 2, 25),
    ("short", "short", 500, 10, 2),
    ("long", "long", 500, 10, 2),
]
MORE_EVENTS = 100


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Program:
    """A started program, ended with its `with` block."""

    def __init__(self, command, port, ready, folder):
        self.port = port
        self.words = open(os.path.join(folder, f"words-{port}"), "w+")
        self.child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self.words, cwd=folder)
        deadline = time.monotonic() + 120
        while not self.answers(ready):
            if time.monotonic() > deadline or self.child.poll() is not None:
                self.words.seek(0)
                sys.exit(f"{command[-1]} does not answer {ready}: {self.words.read()[-2000:]}")
            time.sleep(0.05)

    def answers(self, path):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=10) as client:
                head = f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{self.port}\r\nconnection: close\r\n\r\n"
                client.sendall(head.encode())
                return b" 200 " in client.recv(64)
        except OSError:
            return False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.terminate()
        self.child.wait()
        self.words.close()


def request(port, base, key, model, size):
    words = ("The quick brown fox jumps over the lazy dog. " * (size // 45 + 1))[:size]
    stream = "true" if model in ("short", "long") else "false"
    body = f'{{"model":"{model}","stream":{stream},"messages":[{{"role":"user","content":"{words}"}}]}}'
    head = (
        f"POST {base}/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {key}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return (head + body).encode()


def read_answer(answer):
    status = answer.readline()
    if b" 200 " not in status:
        raise ValueError(f"an answer that is none: {status!r}")
    length = None
    while (line := answer.readline()) != b"\r\n":
        name, value = line.split(b":", 1)
        length = int(value) if name.lower() == b"content-length" else length
    if length is not None:
        answer.read(length)
        return
    while (size := int(answer.readline(), 16)) > 0:
        answer.read(size + 2)
    answer.readline()


def drive(program, base, key, load):
    _, model, size, side_by_side, count = load
    asked = request(program.port, base, key, model, size)

    failed = []

    def ask():
        try:
            with socket.create_connection(("127.0.0.1", program.port)) as client, client.makefile("rb") as answer:
                for _ in range(count):
                    client.sendall(asked)
                    read_answer(answer)
        except Exception as error:  # A thread's own end is told to nobody, and what was not asked costs nothing.
            failed.append(error)

    lanes = [threading.Thread(target=ask) for _ in range(side_by_side)]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    if failed:
        raise failed[0]


def counted(program, counts, base, key):
    """Instructions per request of each load."""

    def control(option):
        subprocess.run(
            ["callgrind_control", option, str(program.child.pid)], check=True, stdout=subprocess.DEVNULL
        )

    found = {}
    for load in LOADS:
        drive(program, base, key, load)
        time.sleep(SETTLE)
        control("-z")
        drive(program, base, key, load)
        time.sleep(SETTLE)
        control("-d")
        total = latest_total(counts)
        found[load[0]] = total / (load[3] * load[4])
    event = (found.pop("long") - found.pop("short")) / MORE_EVENTS
    return {**found, "event": event}


def latest_total(counts):
    folder, stem = os.path.split(counts)
    parts = [name for name in os.listdir(folder) if name.startswith(stem + ".")]
    latest = max(parts, key=lambda name: int(name.rsplit(".", 1)[1]))
    with open(os.path.join(folder, latest)) as file:
        return int(re.search(r"^(?:totals|summary): (\d+)", file.read(), re.M)[1])


def under_callgrind(folder, name, command):
    counts = os.path.join(folder, f"counts-{name}")
    tool = ["valgrind", "--tool=callgrind", "--fair-sched=yes", f"--callgrind-out-file={counts}"]
    return counts, tool + command


def nginx(folder, upstream):
    port = free_port()
    with open(os.path.join(HERE, "../../bench/src/nginx.conf")) as file:
        config = file.read().replace("@LISTEN@", f"127.0.0.1:{port}").replace("@UPSTREAM@", f"127.0.0.1:{upstream}")
    with open(os.path.join(folder, "nginx.conf"), "w") as file:
        file.write("master_process off;\n" + config)
    path = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin:/usr/local/sbin")
    counts, command = under_callgrind(
        folder, "nginx", [path, "-p", folder, "-e", "error.log", "-c", "nginx.conf"]
    )
    with Program(command, port, "/v1/models", folder) as program:
        return counted(program, counts, "/v1", "sk-speed")


def gateway(folder, binary, upstream):
    port = free_port()
    keys = "".join(
        f'[[provider.key]]\nlabel = "key {number}"\nvalue = "sk-speed-{number:024}"\n\n' for number in range(10)
    )
    with open(os.path.join(folder, "backstop.toml"), "w") as file:
        file.write(
            f'[server]\nlisten = "127.0.0.1:{port}"\ndata_dir = "{folder}/data"\nworkers = 1\n\n'
            f'[[client]]\nname = "speed"\nvalue = "{CLIENT_KEY}"\n\n'
            f'[[provider]]\nid = "speed"\nformat = "openai-chat"\nbase_url = "http://127.0.0.1:{upstream}/v1"\n'
            f"allow_private = true\n\n{keys}"
        )
    counts, command = under_callgrind(
        folder, "gateway", [binary, "serve", "--config", os.path.join(folder, "backstop.toml")]
    )
    with Program(command, port, "/readyz", folder) as program:
        return counted(program, counts, "/proxy/speed/v1", CLIENT_KEY)


def main():
    binary, faultd, baseline = (os.path.abspath(path) for path in sys.argv[1:4])
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "script.toml"), "w") as file:
            file.write(SCRIPT)
        upstream = free_port()
        command = [faultd, "--script", os.path.join(folder, "script.toml"), "--listen", f"127.0.0.1:{upstream}"]
        with Program(command, upstream, "/v1/models", folder):
            of_nginx, of_gateway = nginx(folder, upstream), gateway(folder, binary, upstream)
    found = {
        name: {"gateway": round(of_gateway[name]), "nginx": round(of_nginx[name])} for name in of_gateway
    }
    for counts in found.values():
        counts["ratio"] = round(counts["gateway"] / counts["nginx"], 2)
    if "--record" in sys.argv:
        with open(baseline, "w") as file:
            file.write(json.dumps(found, indent=2) + "\n")
    with open(baseline) as file:
        recorded = json.load(file)
    grown = []
    print(f"{'instructions for one':22} {'gateway':>10} {'nginx':>10} {'ratio':>7} {'recorded':>9}")
    for name, counts in found.items():
        before = recorded[name]["ratio"]
        print(f"{name:22} {counts['gateway']:>10} {counts['nginx']:>10} {counts['ratio']:>7} {before:>9}")
        if counts["ratio"] > before * SLACK:
            grown.append(name)
    if grown:
        sys.exit(f"grown by more than a quarter: {', '.join(grown)}; the profile: see docs/speed.md")


# From the last answer until the log is written.
SETTLE = 1.5

if __name__ == "__main__":
    main()
