"""A real browser without a window, driven through its debugging pipe (Chrome DevTools Protocol)."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

#: Names under which a browser that speaks the protocol may be installed.
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def program() -> str | None:
    """Return the path of a browser, `None` where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page of a browser.

    Parameters
    ----------
    profile : Path
        An empty directory for the browser's own files.
    """

    def __init__(self, profile: Path) -> None:
        self._profile = profile
        self._number = 0
        self._session: str | None = None
        self._buffer = b""
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        path = program()
        assert path is not None
        read_here, write_there = os.pipe()
        read_there, write_here = os.pipe()
        options = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
            "--no-first-run", "--disable-extensions", "--disable-background-networking", "--mute-audio",
            f"--user-data-dir={self._profile}", "--remote-debugging-pipe",
        ]  # fmt: skip
        # The browser reads commands from descriptor 3 and writes answers to 4.  Copies with high numbers are in
        # nobody's way, and are closed in the browser.
        commands, answers = (fcntl.fcntl(d, fcntl.F_DUPFD_CLOEXEC, 64) for d in (read_there, write_there))
        actions = [
            *((os.POSIX_SPAWN_OPEN, d, os.devnull, os.O_RDWR, 0) for d in (0, 1, 2)),
            (os.POSIX_SPAWN_DUP2, commands, 3),
            (os.POSIX_SPAWN_DUP2, answers, 4),
        ]
        self._process = os.posix_spawn(path, [path, *options, "about:blank"], os.environ, file_actions=actions)
        for descriptor in (read_there, write_there, commands, answers):
            os.close(descriptor)
        self._read, self._write = read_here, write_here
        targets = self.send("Target.getTargets")["targetInfos"]
        page = next(t["targetId"] for t in targets if t["type"] == "page")
        self._session = self.send("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError, AssertionError):
            self._session = None
            self.send("Browser.close")
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._read)
        os.close(self._write)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one command and return its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            piece = os.read(self._read, 1 << 16)
            if not piece:
                raise AssertionError("the browser has ended")
            self._buffer += piece
        message, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def open(self, path: Path) -> None:
        """Show a file, and wait until it is loaded."""
        self.events.clear()
        self.send("Page.navigate", url=path.as_uri())
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, expression: str, seconds: float = 300.0) -> None:
        """Wait until an expression is true in the page."""
        end = time.monotonic() + seconds
        while not self.run(expression):
            assert time.monotonic() < end, f"not within {seconds:g} s: {expression}"
            time.sleep(0.02)

    def type(self, text: str) -> None:
        """Type text into what has the focus."""
        self.send("Input.insertText", text=text)

    def press(self, key: str) -> None:
        """Press and release one key."""
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    def click(self, selector: str) -> None:
        """Click with the mouse into the middle of an element."""
        script = """
            (() => {
              const element = document.querySelector(SELECTOR);
              element.scrollIntoView({block: "center"});
              const r = element.getBoundingClientRect();
              return [r.x + r.width / 2, r.y + r.height / 2];
            })()
        """
        box = self.run(script.replace("SELECTOR", json.dumps(selector)))
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def scheme(self, name: str) -> None:
        """Let the system prefer ``light`` or ``dark``."""
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def size(self, width: int, height: int) -> None:
        """Give the page a size."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def picture(self) -> bytes:
        """Return the page as it is seen, as PNG."""
        return base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"])

    def requests(self) -> list[str]:
        """Return the addresses that were asked for since the page was opened."""
        return [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]

    def complaints(self) -> list[str]:
        """Return errors of scripts and breaches of the page's policy since it was opened."""
        found = [e["params"]["entry"]["text"] for e in self.events if e.get("method") == "Log.entryAdded"]
        return found + [str(e["params"]) for e in self.events if e.get("method") == "Runtime.exceptionThrown"]
