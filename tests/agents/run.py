"""Runs agent programs under `backstop run` against a failing provider and compares the verdicts.

    run.py FOLDER-OF-BACKSTOP-AND-FAULTD FOLDER-OF-AGENTS
"""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

# Status of the provider, class of the verdict, exit code of --once.
CASES = [(429, "rate_limit", 75), (401, "auth_error", 77), (529, "overloaded", 75)]


def main():
    built, agents = (pathlib.Path(folder).resolve() for folder in sys.argv[1:3])
    wrong = 0
    for status, expected, code in CASES:
        with Provider(built / "faultd", status) as url:
            for name, agent in (("claude", claude), ("codex", codex)):
                with tempfile.TemporaryDirectory() as home:
                    ended, decision = supervise(built / "backstop", home, *agent(agents, home, url))
                verdict = decision.get("class"), ended.returncode
                right = verdict == (expected, code)
                wrong += not right
                print(f"{'ok   ' if right else 'WRONG'} {name} {status}: {verdict}, rule {decision.get('rule')}")
                if not right:
                    print(ended.stdout.decode(errors="replace"), ended.stderr.decode(errors="replace"))
    sys.exit(1 if wrong else 0)


def claude(agents, home, url):
    environment = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "sk-ant-test",
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    return environment, [agents / "claude", "-p", "say hi"]


def codex(agents, home, url):
    folder = pathlib.Path(home) / ".codex"
    folder.mkdir()
    (folder / "config.toml").write_text(
        f'model = "gpt-5"\nmodel_provider = "scripted"\n[model_providers.scripted]\nname = "scripted"\n'
        f'base_url = "{url}/v1"\nenv_key = "OPENAI_API_KEY"\nwire_api = "responses"\n'
        f"request_max_retries = 0\nstream_max_retries = 0\n"
    )
    environment = {"CODEX_HOME": str(folder), "OPENAI_API_KEY": "sk-test"}
    return environment, [agents / "codex", "exec", "--skip-git-repo-check", "say hi"]


def supervise(backstop, home, environment, command):
    ended = subprocess.run(
        [backstop, "run", "--once", "--json", "--name", "agent", "--data-dir", f"{home}/data", "--time-limit", "90", "--", *command],
        env={"PATH": os.environ["PATH"], "HOME": home, **environment},
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=180,
    )
    lines = [line for line in ended.stderr.decode(errors="replace").splitlines() if line.startswith('{"circuit"')]
    return ended, json.loads(lines[-1]) if lines else {}


class Provider:
    """A scripted provider that answers every call with one failure."""

    def __init__(self, program, status):
        self.program, self.status = program, status

    def __enter__(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.script = tempfile.NamedTemporaryFile("w", suffix=".toml")
        self.script.write(f"[otherwise]\nstatus = {self.status}\n")
        self.script.flush()
        self.process = subprocess.Popen([self.program, "--script", self.script.name, "--listen", f"127.0.0.1:{port}"], stderr=subprocess.DEVNULL)
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        return f"http://127.0.0.1:{port}"

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.script.close()


if __name__ == "__main__":
    main()
