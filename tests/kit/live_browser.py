"""A headless browser that a test steers, by Chrome's DevTools protocol over pipes.

https://chromedevtools.github.io/devtools-protocol/: JSON documents, each with a zero byte after it;
the browser reads them from its file 3 and writes to its file 4.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.kit.browser import BROWSER
from tests.kit.polling import wait_until


class CallError(Exception):
    """The browser's answer to a call that it could not carry out."""


class Tab:
    """One tab. `problems` are errors of its console, such as what the page's policy blocked."""

    def __init__(self, commands: int, answers: int) -> None:
        self.problems: list[str] = []
        self._commands, self._answers = commands, open(answers, "rb", buffering=0)  # noqa: SIM115
        self._rest, self._number, self._session = b"", 0, ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a call."""
        number = self._send(method, parameters)
        while True:
            answer = self._read()
            if answer.get("id") == number:
                if "error" in answer:
                    raise CallError(answer["error"])
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def open(self, url: str) -> None:
        """Go to an address."""
        self.call("Page.navigate", url=url)

    def look(self, width: int, height: int = 900, is_dark: bool = False) -> None:
        """Set the size of the window and the colours that the user prefers."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def value(self, expression: str) -> Any:
        """The value of an expression of JavaScript in the page."""
        found = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, expression: str) -> Any:
        """The value of an expression as soon as it is true, in the page that is there then."""
        return wait_until(lambda: self._value_between_pages(expression), expression)

    def picture(self, file: Path, is_whole: bool = False) -> None:
        """Write what the window shows, or the whole page, as PNG."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=is_whole)
        file.write_bytes(base64.b64decode(shot["data"]))

    def _value_between_pages(self, expression: str) -> Any:
        try:
            return self.value(expression)
        except CallError:  # the page has left, or the next one is not there yet
            return None

    def _send(self, method: str, parameters: dict[str, Any]) -> int:
        """Send a call; gives the number of its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        return self._number

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = self._answers.read(1 << 20)
            assert part, "the browser has ended"
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(text)
        return answer

    def _note(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        if event.get("method") == "Log.entryAdded":
            if parameters["entry"]["level"] == "error":
                self.problems.append(parameters["entry"]["text"])
        elif event.get("method") == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(parameters["exceptionDetails"]))
        elif event.get("method") == "Page.javascriptDialogOpening":
            self._send("Page.handleJavaScriptDialog", {"accept": True})


@contextmanager
def browser(profile: Path) -> Iterator[Tab]:
    """A tab of a browser of its own, which reaches loopback alone."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    argv = [
        *(BROWSER or "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
        *("--hide-scrollbars", "--remote-debugging-pipe", f"--user-data-dir={profile}"),
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    ]
    script = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
    process = subprocess.Popen(
        ["bash", "-c", script, "bash", *argv],
        pass_fds=(theirs_in, theirs_out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Tab(ours_out, ours_in)
    finally:
        os.close(ours_out)  # the browser ends when its pipe is closed
        process.wait(30)
