"""test_page.py - the page for browsers on the metrics port, in a headless Chromium where there is one."""

import concurrent.futures
import json
import re

import pytest

from browser import CHROMIUM, Browser
from server import Server, http_request, wait_until
from test_trails import flood, infer

SCENARIO = """
cluster: {accelerators: 2, type: slow}
models:
  - {name: m, alpha_ms: 1, beta_ms: 20, slo_ms: 60000}
  - {name: tight, alpha_ms: 1, beta_ms: 30, slo_ms: 60000}
workload: {rate_rps: 1}
policy: {name: deferred}
run: {seconds: 1, seed: 1}
"""
needs_browser = pytest.mark.skipif(not CHROMIUM, reason="there is no Chromium, which set-up does not bring")


@pytest.fixture(scope="module")
def scenario(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "scenario.yaml"
    path.write_text(SCENARIO)
    return str(path)


def address(server):
    return "http://127.0.0.1:%d/" % server.metrics_port


def cells(page, model):
    """The row of a model: heading -> text."""
    return page.run("""(() => { const row = [...document.querySelectorAll('#models tbody tr')].find(r => r.cells[0].textContent === %s);
        return row && Object.fromEntries([...document.querySelectorAll('#models thead th')].map((th, i) => [th.textContent, row.cells[i].textContent]));
        })()""" % json.dumps(model))


def test_the_page_is_part_of_the_program(scenario):
    """Nothing is from elsewhere, and no script or style is but its own."""
    with Server("--scenario", scenario) as server:
        for path, kind in (("/", "text/html"), ("/page.js", "text/javascript"), ("/page.css", "text/css")):
            status, headers, text = http_request(server.metrics_port, "GET", path)
            text = text.decode()
            assert status == 200 and headers["Content-Type"].startswith(kind)
            assert "script-src 'self'" in headers["Content-Security-Policy"]
            assert "http://" not in text and "https://" not in text and " style=" not in text and " onclick=" not in text


@needs_browser
def test_numbers_are_those_of_the_metrics_and_a_click_finds_the_reason(scenario):
    with Server("--scenario", scenario, "--no-learn") as server, Browser() as page:
        page.open(address(server))
        page.wait("document.querySelectorAll('#models tbody tr').length === 2")
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: infer(server, "m"), range(8)))
        assert infer(server, "tight", id="the-refused-one", parameters={"timeout": 1000})[0] == 503
        flood(server, "m", 20)
        server.rests()
        metrics = server.metrics()

        def shown():
            return all((cells(page, model) or {}).get("requests") == str(int(sum(
                metrics['symphony_requests_total{model="%s",version="1",outcome="%s"}' % (model, outcome)] for outcome in ("ok", "refused"))))
                and cells(page, model)["in time"] == str(int(metrics['symphony_requests_in_time_total{model="%s",version="1"}' % model]))
                and cells(page, model)["refused"] == str(int(metrics['symphony_requests_total{model="%s",version="1",outcome="refused"}' % model]))
                for model in ("m", "tight"))
        wait_until(shown)
        assert cells(page, "tight")["SLO"] == "60000 ms"
        # by keys alone: a row's button is reached and pressed
        page.wait("[...document.querySelectorAll('#bad tbody button')].some(b => b.textContent === 'the-refused-one')")
        page.run("[...document.querySelectorAll('#bad tbody button')].find(b => b.textContent === 'the-refused-one').focus()")
        for kind in ("keyDown", "keyUp"):
            page.ask("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
        page.wait("document.querySelector('#trail').open")
        why, help = (page.run("document.querySelector('#trail-%s').textContent" % part) for part in ("why", "help"))
        took = re.fullmatch(r"a run takes (3\d(?:\.\d+)?) ms, and 1 ms were left for all", why)  # 31, and what runs took here
        assert took and "a deadline of %s ms or more lets it run" % took[1] in help, (why, help)
        page.ask("Input.dispatchKeyEvent", type="keyDown", key="Escape", code="Escape", windowsVirtualKeyCode=27)
        page.wait("!document.querySelector('#trail').open")
        # a filter, an order, what is read aloud
        page.run("(f => { f.value = 'tig'; f.dispatchEvent(new Event('input')); })(document.querySelector('#filter'))")
        page.wait("document.querySelectorAll('#models tbody tr').length === 1")
        page.run("document.querySelector('#models thead button').click()")
        assert page.run("document.querySelector('#models thead th').getAttribute('aria-sort')") == "ascending"
        page.wait("document.querySelector('#lanes').getAttribute('aria-label').includes('the accelerators have run')")
        assert "requests per second now" in page.run("document.querySelector('#goodput').getAttribute('aria-label')")
        for width in (360, 1200):  # nothing is wider than the screen
            page.look(width, 800, mobile=width < 500)
            assert page.run("document.documentElement.scrollWidth") <= width
        page.wait("[...document.querySelectorAll('canvas')].some(c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v))")
        assert not page.complaints()
        assert all(url.startswith((address(server), "data:")) for url in page.addresses())


@needs_browser
def test_a_token_is_asked_for(scenario, tmp_path):
    (tmp_path / "tokens").write_text("secret-secret-secret\n")
    with Server("--scenario", scenario, "--auth-token-file", tmp_path / "tokens", "--auth-metrics") as server, Browser() as page:
        page.open(address(server))
        page.wait("!document.querySelector('#ask').hidden")
        assert page.run("document.querySelectorAll('#models tbody tr').length") == 0
        page.run("document.querySelector('#token').value = 'secret-secret-secret'")
        page.run("document.querySelector('#ask').requestSubmit()")
        page.wait("document.querySelectorAll('#models tbody tr').length === 2")
        assert page.run("document.querySelector('#ask').hidden")
