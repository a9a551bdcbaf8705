"""``policy=vllm``: a server that is started, waited for and stopped. The program here is a stand-in for vLLM."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bepo.core.errors import Missing, UserError
from bepo.policies.vllm import LOG, Vllm

SERVER = """#!{python}
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
print("serving", *sys.argv[1:], flush=True)

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args):
        pass

if "{end}":
    sys.exit("no weights")
HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
"""


def program(folder: Path, end: str = "") -> str:
    path = folder / "vllm"
    path.write_text(SERVER.format(python=sys.executable, end=end))
    path.chmod(0o755)
    return str(path)


def running(folder: Path) -> bool:
    """Is a process of the stand-in alive?"""
    lines = [p.read_bytes() for p in Path("/proc").glob("[0-9]*/cmdline") if os.access(p, os.R_OK)]
    return any(str(folder / "vllm").encode() in line for line in lines)


def test_the_server_lives_as_long_as_the_evaluation(tmp_path):
    policy = Vllm(path="weights", command=program(tmp_path), arguments=["--dtype=float32"], max_prompt_length=100)
    with pytest.raises(RuntimeError), policy.endpoint(tmp_path) as url:
        assert url.startswith("http://127.0.0.1:") and url.endswith("/v1") and running(tmp_path)
        raise RuntimeError
    assert not running(tmp_path)
    assert (tmp_path / LOG).read_text().startswith("serving serve weights --host 127.0.0.1 --port ")
    assert (tmp_path / LOG).read_text().split("\n")[0].endswith("--max-model-len 612 --dtype=float32")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_the_server_ends_with_an_evaluation_that_is_killed(tmp_path):
    code = (
        "from pathlib import Path; from bepo.policies.vllm import Vllm;"
        f"made = Vllm(path='weights', command={program(tmp_path)!r}).endpoint(Path({str(tmp_path)!r}));"
        "print(made.__enter__(), flush=True); input()"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdout.readline().startswith("http://127.0.0.1:") and running(tmp_path)
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 60
    while running(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not running(tmp_path)


def test_a_server_that_ends_is_named(tmp_path):
    server = Vllm(command=program(tmp_path, end="yes")).endpoint(tmp_path)
    with pytest.raises(UserError, match=r"ended with status 1: see .*vllm.txt"), server:
        pass
    assert "no weights" in (tmp_path / LOG).read_text()


def test_a_server_that_is_never_ready_is_stopped(tmp_path):
    sleeper = tmp_path / "vllm"
    sleeper.write_text("#!/bin/sh\nexec sleep 60\n")
    sleeper.chmod(0o755)
    server = Vllm(command=str(sleeper), patience=0.5).endpoint(tmp_path)
    with pytest.raises(UserError, match=r"was not ready after 0\.5 seconds"), server:
        pass
    assert not running(tmp_path)


def test_without_the_program_there_is_no_endpoint(tmp_path):
    with pytest.raises(Missing, match="there is no program no-such-vllm"):
        Vllm(command="no-such-vllm").endpoint(tmp_path).__enter__()
