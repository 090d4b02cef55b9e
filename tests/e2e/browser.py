"""browser.py - drives a headless Chromium over the pipes of its DevTools protocol: no driver, no port."""
import base64
import json
import os
import shutil
import subprocess
import tempfile

from server import wait_until

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """with Browser() as page: page.open(url); page.run("document.title")"""

    def __init__(self, width=1200, height=900):
        self.size = width, height

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="symphony-browser-")
        to_read, self.to = os.pipe()
        self.got, to_write = os.pipe()
        for fd in (to_read, to_write):
            os.set_inheritable(fd, True)

        def descriptors():  # the protocol's are 3 and 4
            read, write = os.dup(to_read), os.dup(to_write)
            os.dup2(read, 3)
            os.dup2(write, 4)
        self.process = subprocess.Popen(
            [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
             "--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe", "--user-data-dir=" + self.folder,
             "--window-size=%d,%d" % self.size, "about:blank"],
            preexec_fn=descriptors, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(to_read)
        os.close(to_write)
        self.number, self.heard, self.session, self.logged = 0, b"", None, []
        target = next(one for one in self.ask("Target.getTargets")["targetInfos"] if one["type"] == "page")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(domain + ".enable")
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.to)
        os.close(self.got)
        shutil.rmtree(self.folder, ignore_errors=True)

    def ask(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params, **({"sessionId": self.session} if self.session else {})}
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.heard:
                part = os.read(self.got, 1 << 16)
                assert part, "the browser has ended"
                self.heard += part
            one, self.heard = self.heard.split(b"\0", 1)
            answer = json.loads(one)
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]
            self.logged.append(answer)

    def open(self, url):
        self.ask("Page.navigate", url=url)
        self.wait("location.href !== 'about:blank' && document.readyState === 'complete'")

    def run(self, script):
        """The value of an expression."""
        result = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait(self, script):
        wait_until(lambda: self.run(script), every_s=0.1)

    def look(self, width, height, dark=False, mobile=False):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))

    def complaints(self):
        """What the page has done wrong: exceptions, errors in the log, and requests to other servers."""
        self.run("0")  # reads what was said until now
        said = [one["params"] for one in self.logged if one["method"] == "Runtime.exceptionThrown"]
        return said + [one["params"] for one in self.logged if one["method"] == "Log.entryAdded" and one["params"]["entry"]["level"] == "error"]

    def addresses(self):
        return {one["params"]["request"]["url"] for one in self.logged if one["method"] == "Network.requestWillBeSent"}
