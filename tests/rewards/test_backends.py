"""Which backend runs programs, how it is called, and what happens where none works."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from kappo.errors import UserError
from kappo.records import Problem
from kappo.rewards import backends, sandbox
from kappo.rewards.code import ProgramTests
from kappo.rewards.sandbox import Sandbox, SandboxBroken
from tests.rewards.boxes import TOKEN, ask


@pytest.fixture
def fresh():
    """Forgets which backend works, before and after."""
    sandbox._working.cache_clear()
    yield
    sandbox._working.cache_clear()


def test_without_a_backend_it_says_what_to_install(monkeypatch, fresh):
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(UserError) as error:
        ProgramTests().ready()
    for word in ("bwrap is not installed", "podman", "apptainer", "backend = auto", "apt-get install bubblewrap"):
        assert word in str(error.value)
    with pytest.raises(UserError, match="bubblewrap"):
        ProgramTests().grade_many([(Problem("p", "", "{}"), "print(1)")])


def test_a_backend_that_fails_its_probe_is_passed_over(monkeypatch, fresh):
    working = ["/bin/sh", "-c", "cat > /dev/null"]
    monkeypatch.setattr(
        sandbox,
        "COMMANDS",
        {"bubblewrap": lambda box: ["/bin/sh", "-c", "echo no namespaces >&2; exit 1"], "podman": lambda box: working},
    )
    assert Sandbox().command() == working
    with pytest.raises(UserError, match="no namespaces"):
        Sandbox(backend="bubblewrap").command()


@pytest.mark.parametrize("script", ["exit 1", "cat > /dev/null", "echo hello", "kill -9 $$", "echo '[]'"])
def test_a_backend_that_dies_is_broken(monkeypatch, script):
    monkeypatch.setattr(sandbox, "_working", lambda box: ["/bin/sh", "-c", script + "; echo why >&2"])
    monkeypatch.setattr(sandbox, "START_SECONDS", 1.0)
    with pytest.raises(SandboxBroken, match="did not start"):
        ask("print(1)")
    tests = json.dumps({"mode": "stdin", "tests": [{"input": "", "output": "1"}]})
    grade = ProgramTests().grade(Problem("p", "", tests), "```python\nprint(1)\n```")
    assert (grade.verdict, grade.score) == ("crash", 0.0)


def test_podman_s_command(monkeypatch):
    monkeypatch.setattr(backends, "_found", lambda name: f"/usr/bin/{name}")
    command = backends.podman(Sandbox(image="python:3.11", memory_mb=512, processes=10))
    assert command[:2] == ["/usr/bin/podman", "run"]
    options = command[: command.index("python:3.11")]
    for option in ("--rm", "--network=none", "--read-only", "--cap-drop=all", "--unsetenv-all", "--memory=512m"):
        assert option in options
    assert "--security-opt=no-new-privileges" in options
    assert "--pull=never" in options
    assert "--pids-limit=14" in options
    assert not [option for option in options if option.startswith(("--volume", "-v", "--mount", "--privileged"))]
    assert f"--env=HOME={backends.ENVIRONMENT['HOME']}" in options
    assert command[-2:] == ["-c", backends.inside()]


def test_apptainer_s_command(monkeypatch):
    monkeypatch.setattr(backends, "_found", lambda name: f"/usr/bin/{name}")
    command = backends.apptainer(Sandbox(image="python.sif"))
    options = command[: command.index("python.sif")]
    for option in ("--containall", "--cleanenv", "--no-home", "--network=none", "--no-privs"):
        assert option in options
    assert not [o for o in options if o.startswith(("--bind", "-B", "--writable", "--workdir", "--fakeroot"))]
    assert command[-2:] == ["-c", backends.inside()]


IMAGE = os.environ.get("KAPPO_SANDBOX_IMAGE", "")


@pytest.mark.skipif(not IMAGE, reason="KAPPO_SANDBOX_IMAGE is not set: no container image with Python here")
def test_podman_for_real(monkeypatch):
    monkeypatch.setenv("KAPPO_TEST_TOKEN", TOKEN)
    monkeypatch.setenv("https_proxy", f"http://{TOKEN}")
    box = Sandbox(backend="podman", image=IMAGE, seconds=1.0, total_seconds=5.0, memory_mb=512)
    source = """
import glob, os, socket
for path in glob.glob('/proc/*/environ') + glob.glob('/proc/*/cmdline'): print(open(path).read())
print(dict(os.environ), os.getuid(), input())
try: socket.create_connection(("192.0.2.1", 80), 1)
except OSError as error: print(error)
try: open("/usr/x", "w")
except OSError as error: print(error)
"""
    (one, two) = ask(source, tests=("first", "second"), box=box)
    assert one[0] == two[0] == "text"
    assert "65534 first" in one[1]
    assert "Network is unreachable" in one[1]
    assert "Read-only file system" in one[1]
    assert TOKEN not in one[1]
    assert ask("while True: pass", box=box) == [("timeout", "")]
    assert ask("x = 'x' * 10**9", box=box) == [("error", "MemoryError: ")]
    assert ask("import os\nwhile True: os.fork()", box=box)[0][0] in ("error", "timeout")
    command = ["podman", "ps", "--all", "--quiet", f"--filter=ancestor={IMAGE}"]
    for _ in range(40):  # podman removes a container behind its client's back
        left = subprocess.run(command, capture_output=True, check=True).stdout
        if not left:
            break
        time.sleep(0.5)
    assert left == b""


@pytest.mark.parametrize("name", ["podman", "apptainer"])
def test_containers_need_an_image(monkeypatch, name):
    monkeypatch.setattr(backends, "_found", lambda name: f"/usr/bin/{name}")
    with pytest.raises(ValueError, match=r"sandbox\.image is not set"):
        backends.COMMANDS[name](Sandbox())


@pytest.mark.parametrize("root", [True, False])
def test_bubblewrap_s_command(monkeypatch, root):
    monkeypatch.setattr(backends, "_found", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(os, "geteuid", lambda: 0 if root else 1000)
    command = backends.bubblewrap(Sandbox(packages=[]))
    for option in ("--clearenv", "--die-with-parent", "--new-session", "--unshare-net" if root else "--unshare-all"):
        assert option in command
    binds = [command[i + 1] for i, word in enumerate(command) if word == "--ro-bind"]
    assert "--bind" not in command
    assert "--dev-bind" not in command
    assert not [path for path in binds if path in ("/", "/etc", "/home", "/root", str(Path.home()))]
    assert ("--reuid" in command) is root
