"""``policy=vllm`` starts a server, waits for it and stops it. The program here is a stand-in for vLLM."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bepo.core.errors import Missing, UserError
from bepo.envs.sokoban import Sokoban
from bepo.policies.serving.vllm_server import LOG
from bepo.policies.tiny import Tiny
from bepo.policies.vllm import Vllm
from bepo.rollouts.agent import Agent

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

if {end!r}:
    sys.exit({end!r})
HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
"""


def program(folder: Path, end: str = "") -> str:
    path = folder / "vllm"
    path.write_text(SERVER.format(python=sys.executable, end=end), encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def running(folder: Path) -> bool:
    """Return whether a process of the stand-in is alive."""
    lines = [p.read_bytes() for p in Path("/proc").glob("[0-9]*/cmdline") if os.access(p, os.R_OK)]
    return any(str(folder / "vllm").encode() in line for line in lines)


def test_the_server_lives_as_long_as_the_evaluation(tmp_path):
    policy = Vllm(path="weights", command=program(tmp_path), arguments=["--dtype=float32"], max_prompt_length=100)
    with pytest.raises(RuntimeError), policy.endpoint(tmp_path) as url:
        assert url.startswith("http://127.0.0.1:") and url.endswith("/v1") and running(tmp_path)
        raise RuntimeError
    assert not running(tmp_path)
    told = (tmp_path / LOG).read_text(encoding="utf-8").split("\n")[0]
    port = url.removeprefix("http://127.0.0.1:").removesuffix("/v1")
    how = "--max-model-len 612 --generation-config vllm --dtype=float32"
    assert told == f"serving serve weights {how} --host 127.0.0.1 --port {port}"


def test_the_server_is_not_looked_for_through_a_proxy(tmp_path, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with Vllm(path="weights", command=program(tmp_path), patience=20).endpoint(tmp_path) as url:
        assert url.startswith("http://127.0.0.1:")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_the_server_ends_with_an_evaluation_that_is_killed(tmp_path):
    code = (
        "from pathlib import Path; from bepo.policies.vllm import Vllm;"
        f"made = Vllm(path='weights', command={program(tmp_path)!r}).endpoint(Path({str(tmp_path)!r}));"
        "print(made.__enter__(), flush=True); input()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )
    assert parent.stdout.readline().startswith("http://127.0.0.1:") and running(tmp_path)
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 60
    while running(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not running(tmp_path)


REASONS = {  # what vLLM 0.28 printed, shortened: the first error is the cause
    """(Worker pid=7) INFO 11-22 20:36:20 [cpu.py:163] Reset
ERROR 11-22 20:36:23 [multiproc_executor.py:941] Traceback (most recent call last):
ERROR 11-22 20:36:23 [multiproc_executor.py:941] ValueError: Available memory on node 0 (20.74/23.54 GiB) is too small
(EngineCore pid=2) ERROR 11-22 20:36:26 [core.py:1346] Exception: WorkerProc initialization failed. See root cause.
(APIServer pid=1)     raise RuntimeError(
(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above.
""": "(ValueError: Available memory on node 0 (20.74/23.54 GiB) is too small)",
    """(APIServer pid=1) pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
(APIServer pid=1)   Value error, 2560 is greater than 130
""": "(pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig Value error, 2560",
    "vllm: error: unrecognized arguments: --none\n": "(vllm: error: unrecognized arguments: --none)",
    "killed\n": ": see ",
}


@pytest.mark.parametrize("said", REASONS)
def test_a_server_that_ends_says_why(said, tmp_path):
    (tmp_path / LOG).write_text("ValueError: of an earlier start\n", encoding="utf-8")
    server = Vllm(path="weights", command=program(tmp_path, end=said)).endpoint(tmp_path)
    with pytest.raises(UserError) as caught, server:
        pass
    text = str(caught.value)
    assert text.startswith("vllm serve weights ended with status 1") and REASONS[said] in text
    assert text.endswith(f": see {tmp_path / LOG}") and "earlier" not in text and "\n" not in text


def test_a_server_that_is_never_ready_is_stopped(tmp_path):
    sleeper = tmp_path / "vllm"
    sleeper.write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    sleeper.chmod(0o755)
    server = Vllm(command=str(sleeper), patience=0.5).endpoint(tmp_path)
    with pytest.raises(UserError, match=r"was not ready after 0\.5 seconds"), server:
        pass
    assert not running(tmp_path)


def test_a_folder_without_a_checkpoint_is_refused_before_anything_starts(tmp_path):
    for path, words in ((tmp_path, "no config.json"), (tmp_path / "none", "no such folder"), ("a/b/c", "no such")):
        with pytest.raises(UserError, match=words):
            Vllm(path=str(path), command=program(tmp_path)).endpoint(tmp_path).__enter__()
    assert not (tmp_path / LOG).exists()


def test_the_program_of_this_environment_comes_before_others(tmp_path, monkeypatch):
    mine, other = tmp_path / "mine", tmp_path / "other"
    for folder in (mine, other):
        folder.mkdir()
        program(folder)
    monkeypatch.setenv("PATH", str(other))
    assert Vllm().program == str(other / "vllm")
    monkeypatch.setattr(sys, "executable", str(mine / "python"))
    assert Vllm().program == str(mine / "vllm")


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3"])
def test_autotokenizer_reads_what_the_tiny_model_reads(architecture, tmp_path):
    """As vLLM would, which loads the tokenizer from the folder that it is given."""
    from transformers import AutoTokenizer

    tiny = Tiny(architecture=architecture, num_hidden_layers=1).build(Sokoban(), Agent(style="compact"), "cpu")
    tiny.save(tmp_path)
    with Vllm(path=str(tmp_path), command=program(tmp_path)).endpoint(tmp_path):
        words = (tmp_path / LOG).read_text(encoding="utf-8").split()
        folder = words[words.index("--tokenizer") + 1] if "--tokenizer" in words else tmp_path
        found = AutoTokenizer.from_pretrained(folder)
    chat = found.apply_chat_template([{"role": "user", "content": "go up"}], tokenize=False, add_generation_prompt=True)
    assert (architecture == "qwen2") == (folder != tmp_path) and not (folder != tmp_path and Path(folder).exists())
    assert found.encode(chat, add_special_tokens=False) == tiny.encode("go up")


def test_without_the_program_there_is_no_endpoint(tmp_path):
    with pytest.raises(Missing, match=r"policy=vllm: .*no-such-vllm"):
        Vllm(command="no-such-vllm").endpoint(tmp_path).__enter__()
