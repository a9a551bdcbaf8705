"""``bepo view --watch RESULTS``: a page of a results folder that follows its runs while they train.

A small server on this machine makes a page anew when files of the runs changed. An open page asks for changes every few
seconds and loads itself again, unless something is being typed.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import suppress
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bepo.core.errors import UserError, why
from bepo.explore.index import page
from bepo.explore.overview import overview
from bepo.store.find import find_runs
from bepo.store.run_files import CONFIG

HOST = "127.0.0.1"
_SECONDS = 3
_PAGE = re.compile(r"/[\w-]+\.html")  # of a run or a study, not a path
_POLICY = "default-src 'none'; "
_SCRIPT = """<script>
const seen = %r;
setInterval(async () => {
  const typing = document.activeElement?.tagName === "INPUT" && document.activeElement.value;
  const answer = await fetch("/state").catch(() => null);
  if (answer?.ok && !typing && await answer.text() !== seen) location.reload();
}, %d);
</script>
</body>"""


class Watch:
    """Pages of a results folder: ``/`` lists its runs and ``/NAME.html`` is the page of a run or a study."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self._made: dict[str, tuple[str, str]] = {}
        self._lock = threading.Lock()

    def state(self) -> str:
        """Return a text that changes when a file of a run changes."""
        names = ("config.json", "metrics.jsonl", "episodes.jsonl", "run.json")
        files = [path for name in names for path in self.results.glob(f"runs/*/{name}")]
        states = [path.stat() for path in files if path.exists()]
        return f"{len(states)} {sum(s.st_size for s in states)} {max((s.st_mtime_ns for s in states), default=0)}"

    def page(self, name: str) -> str:
        """Return a page; it is made anew if a run changed. Raises ``UserError`` for an unknown name."""
        with self._lock:
            state = self.state()
            if self._made.get(name, ("", ""))[0] != state:
                self._made[name] = state, self._live(self._render(name), state)
            return self._made[name][1]

    def _render(self, name: str) -> str:
        if name:
            runs = find_runs(name, self.results)
            return page(runs, study=name if len(runs) > 1 else "")
        if not any(self.results.glob(f"runs/*/{CONFIG}")):
            return f"<!doctype html><html><body><p>No run in {escape(str(self.results))} yet.</p></body></html>"
        return overview(find_runs(str(self.results), self.results), self.results, every_page=True)

    def _live(self, text: str, state: str) -> str:
        allowed = text.replace(_POLICY, f"{_POLICY}connect-src 'self'; ", 1)
        return allowed.replace("</body>", _SCRIPT % (state, 1000 * _SECONDS), 1)


def serve(results: Path, port: int = 0) -> ThreadingHTTPServer:
    """Return a server of the pages of a results folder on this machine; ``port`` 0 is a free one.

    Raises ``UserError`` if the port cannot be used.
    """
    watch = Watch(results)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            if path == "/state":
                self._answer(200, "text/plain", watch.state)
            elif path == "/" or _PAGE.fullmatch(path):
                name = path.removeprefix("/").removesuffix(".html")
                self._answer(200, "text/html", lambda: watch.page("" if name == "runs" else name))
            elif path == "/favicon.ico":  # a browser asks for it, and would report an error
                self._answer(200, "image/x-icon", str)
            else:
                self._answer(404, "text/plain", lambda: "unknown page")

        def _answer(self, status: int, kind: str, content: Callable[[], str]) -> None:
            try:
                text = content()
            except UserError as error:
                status, kind, text = 404, "text/plain", str(error)
            data = text.encode()
            with suppress(ConnectionError):  # the browser left, for another page or for good
                self.send_response(status)
                self.send_header("Content-Type", f"{kind}; charset=utf-8")
                self.send_header("Content-Length", str(len(data)))
                self.send_header("Cache-Control", "no-store")
                self.end_headers()
                self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing: an open page asks every few seconds."""

    try:
        return ThreadingHTTPServer((HOST, port), Handler)
    except OSError as error:
        raise UserError(f"--port {port}: cannot be used ({why(error)}); 0 is a free one") from error
