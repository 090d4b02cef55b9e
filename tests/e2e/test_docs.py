"""test_docs.py - the documents against the program: links and headings, options, metrics, log lines, and names of files."""
import pathlib
import re
import shlex
import subprocess
import sys
import urllib.request

import pytest

from server import BINARY, Server

TOP = pathlib.Path(__file__).resolve().parents[2]
PAGES = [page for pattern in ("*.md", "docs/*.md", "src/*/README.md", "tests/*/README.md") for page in sorted(TOP.glob(pattern))]
WRITTEN = [page for page in PAGES if not page.name.startswith(("reproduction", "comparison"))]  # not by a command of ./run
GUIDES = "\n".join(page.read_text() for page in (TOP / "docs").glob("*.md"))
SOURCES = "\n".join(path.read_text() for path in (TOP / "src").rglob("*.[ch]"))
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
COMMANDS = [[name] for name in "backend bench cordon drain frontend profile rollout scheduler serve simulate status stress timeline top uncordon whatif".split()]
COMMANDS += [["plan", name] for name in "partition pool prefixes squishy split".split()]


def name_of(page):
    return str(page.relative_to(TOP))


def helps(*command):
    """The options that a command explains."""
    shown = subprocess.run([BINARY, *command, "--help"], capture_output=True, text=True)
    return set(re.findall(r"^ +(--[a-z][\w-]*)", shown.stdout, re.M))


def prose(page):
    """Without what is shown between ``` lines."""
    return re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.S | re.M)


def anchors(page):
    """Of its headings, as GitHub makes them, and those that it names itself."""
    found = set(re.findall(r'<a id="([^"]+)"', page.read_text()))
    for heading in re.findall(r"^#+ (.*)", prose(page), re.M):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        found.add(re.sub(r"[^\w\- ]", "", text).replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        to = (page.parent / path).resolve() if path else page
        assert to.exists(), link
        assert not anchor or anchor in anchors(to), link


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_files_are_there(page):
    """What is named with its whole path; `src/cluster/membership/election` are its .c and .h."""
    folders = "src|tests|bench|scripts|deploy|scenarios|data|cmake|proto|python"
    for name in re.findall("`((?:%s)/[\\w./-]+)(?=[` ])" % folders, prose(page).replace("`src/python/examples`", "")):  # Triton's
        assert (TOP / name).exists() or (TOP / (name + ".c")).exists(), name


def test_options_exist():
    """Those that pages name in their text are of symphony, or of the project's own scripts; Triton's are its own."""
    known = {option for command in COMMANDS for option in helps(*command)}.union("--chown --client-cert-auth --data-binary --etcd --tool --ulimit".split())
    for path in [TOP / "run", *(path for folder in "bench deploy scripts tests".split() for path in (TOP / folder).rglob("*"))]:
        known.update(OPTION.findall(path.read_text(errors="ignore")) if path.is_file() else [])
    pages = [page for page in WRITTEN if not page.name.startswith(("compatibility", "coming-from"))]
    named = [(option, name_of(page)) for page in pages for code in re.findall(r"`([^`]+)`", prose(page)) for option in OPTION.findall(code)]
    assert len(named) > 100
    assert not [option for option in named if option[0] not in known]


def shown_commands():
    """Lines of programs in ``` blocks and behind `$ `: the command and its options, without what a shell makes of them."""
    for page in WRITTEN:
        text = re.sub(r"\\\n\s*", " ", page.read_text())
        shown = "\n".join(re.findall(r"^ *```(?:sh)?\n(.*?)^ *```", text, re.S | re.M)) + "\n" + "\n".join(re.findall(r"^    \$ (.*)", text, re.M))
        for line in shown.splitlines():
            found = re.search(r"(?:^|[ /$])symphony(?:-server)? (%s)\b([^|;&#<>]*)" % "|".join(name for name, *_ in COMMANDS), line)
            if found:
                yield name_of(page), found[1], OPTION.findall(found[2]), found[0]


def test_commands_that_pages_show_have_their_options():
    known, checked = {}, 0
    for page, command, options, line in shown_commands():
        if command == "plan" or "--isolated" in line:  # its own commands have the options
            continue
        if command not in known:
            known[command] = helps(command)
        assert not set(options) - known[command], "%s: %s" % (page, line)
        checked += len(options)
    assert checked > 50


def shown_simulations():
    """Commands of the simulator and the planner with a scenario of the repository, those within a paragraph, too."""
    found = {}
    for page in WRITTEN:
        text = re.sub(r"\s+", " ", re.sub(r"\\\n", " ", re.sub(r"\n(?= *(?:\$ |build/|symphony ))", " ; ", page.read_text())))
        for command in re.findall(r"symphony ((?:simulate|plan \w+) scenarios/[\w./-]+(?: --[\w-]+(?:=| )(?:'[^']*'|[^\s`'#;|)]+))*)", text):
            if ".so" not in command and ".csv" not in command:  # which the reader brings
                found.setdefault(command, name_of(page))
    return [pytest.param(command, id="%s: %s" % (page, command)) for command, page in found.items()]


@pytest.mark.parametrize("command", shown_simulations())
def test_simulations_that_pages_show_run(command, tmp_path):
    """For a moment of virtual time: what they print is the page's, and the scenarios', to keep."""
    (tmp_path / "scenarios").symlink_to(TOP / "scenarios")
    short = ["--set", "run.seconds=0.02", "--set", "run.warmup_seconds=0"] if re.match("simulate|plan pool", command) else []
    done = subprocess.run([BINARY, *shlex.split(command), *short], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_log_lines_exist():
    lines = set(re.findall(r'msg="([^"]+)"', GUIDES)) - {"..."}
    assert len(lines) > 10
    assert not [line for line in lines if '"%s"' % line not in SOURCES]


def test_metrics_exist():
    """Those that pages name; the others are explained where they are shown."""
    with Server("--scenario", TOP / "scenarios" / "table4-resnet50.yaml", "--rank-threads", "2", "--policy", "deferred") as server:
        with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % server.metrics_port, timeout=600) as page:
            text = page.read().decode()
    shown = set(re.findall(r"^# TYPE (\w+)", text, re.M))
    assert len(shown) > 50
    assert shown == set(re.findall(r"^# HELP (\w+) \S", text, re.M))
    named = set(re.findall(r"`((?:symphony|nv_inference)_[a-z_]+[a-z])`", GUIDES))
    assert not [name for name in named if name not in shown and '"%s"' % name not in SOURCES]


def test_the_readmes_chart_is_what_the_simulator_says():
    drawn = subprocess.run([sys.executable, "-B", "bench/overload_chart.py", str(pathlib.Path(BINARY).resolve())], cwd=TOP, capture_output=True, text=True,
                           check=True).stdout
    assert drawn == (TOP / "docs/images/overload.svg").read_text()
