"""Mail alerts against a real SMTP server: delivered, refused for a while, server gone and back, wrong certificate.

    smtp.py BACKSTOP
"""

import os
import pathlib
import ssl
import subprocess
import sys
import tempfile
import time

from aiosmtpd.controller import Controller


class Letters:
    """Keeps what arrives; refuses the first letters when told."""

    def __init__(self, refuse=0):
        self.refuse, self.letters = refuse, []

    async def handle_DATA(self, server, session, envelope):
        if self.refuse:
            self.refuse -= 1
            return "451 come back later"
        self.letters.append(envelope.content.decode())
        return "250 taken"


def main():
    backstop = pathlib.Path(sys.argv[1]).resolve()
    delivered(backstop)
    server_gone_and_back(backstop)
    strangers_certificate(backstop)
    print("ok")


def delivered(backstop):
    with World(backstop) as world, Server(Letters()) as server:
        world.mail_to(server.port)
        done = world.call("alerts", "test")
        assert done.returncode == 0 and "mail: delivered: 250" in done.stdout, done
        (letter,) = server.handler.letters
        assert "Subject: [backstop] test message" in letter, letter
        assert "Nothing is wrong." in letter, letter


def server_gone_and_back(backstop):
    with World(backstop) as world:
        with Server(Letters()) as server:
            port = server.port
        world.mail_to(port)
        failing = world.call("run", "--once", "--name", "agent", "--", "sh", "-c", "echo 'Credit balance is too low'; exit 1")
        assert failing.returncode == 77, failing
        assert world.waiting() == 1, "the letter waits in the outbox"
        handler = Letters(refuse=1)
        with Server(handler, port):
            deadline = time.monotonic() + 90
            while not handler.letters and time.monotonic() < deadline:
                # The seat rests, so that nothing is started; each visit gives the outbox a chance.
                world.call("run", "--once", "--name", "agent", "--", "false")
                time.sleep(1)
        (letter,) = handler.letters
        assert "out of money" in letter and "seat/agent" in letter, letter
        assert world.waiting() == 0


def strangers_certificate(backstop):
    with World(backstop) as world:
        folder = world.folder
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
             "-keyout", f"{folder}/key.pem", "-out", f"{folder}/cert.pem"],
            check=True, capture_output=True,
        )  # fmt: skip
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{folder}/cert.pem", f"{folder}/key.pem")
        with Server(Letters(), tls_context=context) as server:
            world.mail_to(server.port, "starttls")
            done = world.call("alerts", "test")
            assert done.returncode == 1 and "certificate" in done.stdout.lower(), done
            assert not server.handler.letters


class Server(Controller):
    def __init__(self, handler, port=0, **options):
        super().__init__(handler, hostname="127.0.0.1", port=port, **options)

    def __enter__(self):
        self.start()
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_):
        self.stop()

    def _trigger_server(self):
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


class World:
    def __init__(self, backstop):
        self.backstop = backstop

    def __enter__(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        return self

    def __exit__(self, *_):
        self.temporary.cleanup()

    def mail_to(self, port, tls="none"):
        (self.folder / "backstop.toml").write_text(
            f'[[alert]]\nchannel = "email"\nname = "mail"\nsmtp = "localhost:{port}"\nsmtp_tls = "{tls}"\n'
            f'from = "backstop@example.org"\nto = ["me@example.org"]\n'
        )

    def call(self, *arguments):
        command, *rest = arguments
        places = ["--config", f"{self.folder}/backstop.toml", "--data-dir", f"{self.folder}/data"]
        return subprocess.run(
            [self.backstop, command, *places, *rest], capture_output=True, text=True, timeout=120,
            env={"HOME": str(self.folder), "PATH": os.environ["PATH"]},
        )  # fmt: skip

    def waiting(self):
        return len(list(self.folder.glob("data/alerts/outbox/*/mail/*.json")))


if __name__ == "__main__":
    main()
