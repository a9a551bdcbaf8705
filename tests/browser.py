"""A headless Chromium that is driven over its DevTools protocol: pages as a reader's browser shows them."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any, Self

from websockets.sync.client import connect

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-port=0")
_PATIENCE = 60  # seconds


class Browser:
    """One tab. ``problems`` collects errors of the console, ``requests`` the addresses that were asked for."""

    def __init__(self, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        assert CHROMIUM is not None
        self._folder = tempfile.mkdtemp(prefix="browser-")
        command = [CHROMIUM, *_OPTIONS, f"--user-data-dir={self._folder}", "about:blank"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._socket = connect(self._address(), max_size=None)
        self._number, self.problems, self.requests = 0, [], []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def _address(self) -> str:
        port, deadline = Path(self._folder) / "DevToolsActivePort", time.monotonic() + _PATIENCE
        direct = urllib.request.build_opener(
            urllib.request.ProxyHandler({})
        )  # this machine is not asked through a proxy
        while time.monotonic() < deadline:
            if port.exists() and (lines := port.read_text(encoding="utf-8").splitlines()):
                with direct.open(f"http://127.0.0.1:{lines[0]}/json") as answer:
                    pages = [page for page in json.load(answer) if page["type"] == "page"]
                if pages:
                    return pages[0]["webSocketDebuggerUrl"]
            time.sleep(0.05)
        raise AssertionError("the browser does not start")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return the result of a method of the protocol; events that come before it are noted."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=_PATIENCE))
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(str(parameters["exceptionDetails"].get("exception", {}).get("description")))
        if method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            self.problems.append(str(parameters["args"]))
        if method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.problems.append(parameters["entry"]["text"])
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])

    def open(self, address: str, ready: str = "document.readyState === 'complete'") -> None:
        """Load a page, and wait until ``ready`` holds."""
        self.call("Page.navigate", url="about:blank")  # a change of the part after # alone would load nothing
        self.call("Page.navigate", url=address)
        self.wait(f"location.href !== 'about:blank' && ({ready})")

    def wait(self, condition: str) -> None:
        """Wait until a JavaScript expression is true."""
        deadline = time.monotonic() + _PATIENCE
        while not self.evaluate(f"Boolean({condition})"):
            assert time.monotonic() < deadline, f"never: {condition}; {self.problems}"
            time.sleep(0.05)

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression, as JSON; promises are awaited."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """Press and release a key, by its name and its Windows key code."""
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def screenshot(self, path: Path, whole: bool = True) -> None:
        """Write a picture (.png) of the whole page, or of what its window shows."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}} if whole else {}
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait(_PATIENCE)
        shutil.rmtree(self._folder, ignore_errors=True)
