"""Chromium without a window, driven over two pipes (Chrome DevTools Protocol, --remote-debugging-pipe)."""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from starter import wait_for

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PATH = next(filter(None, map(shutil.which, NAMES)), None)
MISSING = "needs Chromium: apt install chromium-headless-shell, or chromium"


class Refused(Exception):
    """What the browser could not do."""


class Browser:
    """One browser with one page."""

    def __init__(self, directory: Path) -> None:
        assert PATH is not None
        there_in, self._out = os.pipe()
        self._in, there_out = os.pipe()
        flags = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --remote-debugging-pipe"
        # The browser reads from descriptor 3 and writes to 4, whatever they are here.
        script = f'exec 3<&{there_in} 4>&{there_out}; exec "$0" "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", script, PATH, *flags.split(), f"--user-data-dir={directory}", "about:blank"],
            pass_fds=(there_in, there_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(there_in)
        os.close(there_out)
        self._read = b""
        self._number = 0
        self._session: dict[str, str] = {}
        self.complaints: list[str] = []
        """What the console says: exceptions, and whatever the browser finds wrong with a page."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._session = {"sessionId": session}
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait(30)
        os.close(self._in)
        os.close(self._out)

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Do it, and return what comes of it. Raises Refused."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters, **self._session}
        os.write(self._out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + 30
        while True:
            raw, mark, rest = self._read.partition(b"\0")
            if not mark:
                ready, _, _ = select.select([self._in], [], [], max(end - time.monotonic(), 0.0))
                data = os.read(self._in, 1 << 16) if ready else b""
                assert data, f"the browser does not answer {method}"
                self._read += data
                continue
            self._read = rest
            answer = json.loads(raw)
            self._note(answer.get("method", ""), answer.get("params", {}))
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise Refused(answer["error"]["message"])
                return dict(answer["result"])

    def _note(self, event: str, told: dict[str, Any]) -> None:
        if (
            event == "Log.entryAdded" and told["entry"]["source"] != "network"
        ):  # a status of 400 or more is no complaint
            self.complaints.append(told["entry"]["text"])
        elif event in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
            self.complaints.append(json.dumps(told))

    def go(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def show(self, width: int, scheme: str, height: int = 800) -> None:
        """Take a screen of this width in CSS pixels, as that of a phone below 500; scheme: `light` or `dark`."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        self.call("Emulation.setScrollbarsHidden", hidden=True)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path: Path, height: int = 0) -> None:
        """Write a PNG of the page, of its first `height` pixels if that is given."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": height or size["height"], "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def value(self, expression: str) -> Any:
        """What JavaScript makes of it in the page; None while the page is exchanged."""
        try:
            answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        except Refused:  # "Inspected target navigated or closed"
            return None
        return answer["result"].get("value")

    def await_text(self, text: str) -> None:
        """Wait until the page shows it."""
        shown = "document.body ? document.body.innerText : ''"
        wait_for(lambda: text in (self.value(shown) or ""), f"{text!r} in the page")
