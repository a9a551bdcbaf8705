"""A small OpenAI-compatible server in this process, which can fail on purpose."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Fault = Callable[["Handler", dict[str, Any]], None]
"""Answers a request in a wrong way."""


def from_admissible(prompt: str) -> str:
    """One of the admissible actions that the prompt lists last; which one follows from the prompt."""
    listed = re.findall(r"Admissible actions: \[(.*?)\]\.", prompt, re.DOTALL)[-1]
    actions = re.findall(r"'([^']*)'", listed)
    return f"<think>so</think><action>{actions[int(sha256(prompt.encode()).hexdigest(), 16) % len(actions)]}</action>"


class ChatServer(ThreadingHTTPServer):
    """Answers chat completions with ``answer(prompt)``; ``faults`` are used up first, one a request."""

    def __init__(self, answer: Callable[[str], str] = from_admissible, key: str | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer, self.key, self.model = answer, key, "a-model"
        self.faults: list[Fault] = []
        self.bodies: list[dict[str, Any]] = []  # of the chat completions that were asked for
        self.times: list[float] = []  # when
        self.lock = threading.Lock()
        self.at_once = self.most_at_once = 0
        self.pause = 0.0  # seconds before each answer

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    server: ChatServer

    def do_GET(self) -> None:
        if self._may():
            self.send(200, {"object": "list", "data": [{"id": self.server.model, "object": "model"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self._may():
            return
        server = self.server
        with server.lock:
            server.bodies.append(body)
            server.times.append(time.monotonic())
            server.at_once += 1
            server.most_at_once = max(server.most_at_once, server.at_once)
            fault = server.faults.pop(0) if server.faults else None
        try:
            time.sleep(server.pause)
            fault(self, body) if fault else self.complete(body)
        finally:
            with server.lock:
                server.at_once -= 1

    def complete(self, body: dict[str, Any], **changes: Any) -> None:
        """Send a chat completion."""
        content = body["messages"][0]["content"]
        prompt = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
        choice = {"index": 0, "message": {"role": "assistant", "content": self.server.answer(prompt)}}
        usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": 7, "total_tokens": len(prompt) // 4 + 7}
        found = {"id": "x", "object": "chat.completion", "created": 0, "model": self.server.model, "usage": usage}
        found |= {"choices": [choice | {"finish_reason": "stop"}], "system_fingerprint": "fp"}
        self.send(200, found | changes)

    def send(self, status: int, content: dict[str, Any] | bytes, **headers: str) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def _may(self) -> bool:
        sent = self.headers.get("Authorization", "")
        if self.server.key is None or sent == f"Bearer {self.server.key}":
            return True
        self.send(401, {"error": {"message": f"Incorrect API key provided: {sent}"}})
        return False

    def log_message(self, *args: Any) -> None:
        """Be quiet."""


def status(code: int, **headers: str) -> Fault:
    """Fail with this status."""
    return lambda handler, body: handler.send(code, {"error": {"message": f"it is {code}"}}, **headers)


def overlong(handler: Handler, body: dict[str, Any]) -> None:
    """Refuse a prompt as vLLM does that is too long for the model."""
    words = "This model's maximum context length is 64 tokens. However, your request has 65 input tokens."
    handler.send(400, {"object": "error", "message": words, "type": "BadRequestError", "code": 400})


def cut(handler: Handler, body: dict[str, Any]) -> None:
    """Close the connection in the middle of an answer."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"id": "x", "choi')
    handler.close_connection = True


def malformed(handler: Handler, body: dict[str, Any]) -> None:
    """Send invalid JSON."""
    handler.send(200, b'{"id": "x", "choices": [}')


def foreign(handler: Handler, body: dict[str, Any]) -> None:
    """Answer as another model."""
    handler.complete(body, model="another-model")


def filtered(handler: Handler, body: dict[str, Any]) -> None:
    """Say that the answer was filtered."""
    choice = {"index": 0, "message": {"role": "assistant", "content": None}, "finish_reason": "content_filter"}
    handler.complete(body, choices=[choice])


def slow(handler: Handler, body: dict[str, Any]) -> None:
    """Answer when nobody waits any more."""
    time.sleep(1.5)
    handler.close_connection = True


@contextmanager
def serving(answer: Callable[[str], str] = from_admissible, key: str | None = None):
    """A server for the time of a ``with`` block."""
    server = ChatServer(answer, key)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
