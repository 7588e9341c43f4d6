"""What a program inside the sandbox can see, take and leave behind."""

import asyncio
import contextlib
import json
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import psutil
import pytest

from kappo.config import build
from kappo.errors import UserError
from kappo.records import Problem
from kappo.rewards import backends, sandbox
from kappo.rewards.code import ProgramTests
from kappo.rewards.sandbox import Sandbox, SandboxBroken


def usable() -> str:
    try:
        Sandbox().command()
    except UserError as error:
        return str(error)
    return ""


MISSING = usable()
needs_sandbox = pytest.mark.skipif(bool(MISSING), reason=MISSING)
QUICK = Sandbox(seconds=1.0, total_seconds=5.0)
TOKEN = "kappo-secret-7361"


def ask(source, tests=("",), box=QUICK):
    """The answers of a program to inputs."""
    tests = [{"input": text} for text in tests]
    return box.run({"mode": "stdin", "source": source, "setup": "", "entry": "", "tests": tests})


def said(source, box=QUICK):
    """What a program prints; it must end well."""
    ((kind, text),) = ask(source, box=box)
    assert kind == "text", (kind, text)
    return text.strip()


@needs_sandbox
def test_the_caller_s_environment_is_invisible(monkeypatch):
    monkeypatch.setenv("KAPPO_TEST_TOKEN", TOKEN)
    source = """
import glob, os
print(dict(os.environ))
for path in glob.glob('/proc/*/environ') + glob.glob('/proc/*/cmdline'):
    try: print(path, open(path).read())
    except OSError as error: print(error)
"""
    text = said(source)
    assert "OMP_NUM_THREADS" in text
    assert TOKEN not in text
    assert "KAPPO_TEST_TOKEN" not in text
    assert set(eval(text.split("\n")[0])) <= {*backends.ENVIRONMENT, "PWD", "LC_CTYPE"}


@needs_sandbox
def test_there_is_no_network():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        socket.create_connection(("127.0.0.1", port), 1).close()
        source = f"""
import os, socket
print(sorted(os.listdir('/sys/class/net')) if os.path.exists('/sys/class/net') else [])
for address in (('127.0.0.1', {port}), ('1.1.1.1', 53), ('example.org', 80)):
    try: socket.create_connection(address, 0.3); print('connected')
    except OSError as error: print('refused')
"""
        assert said(source) == "[]\nrefused\nrefused\nrefused"


@needs_sandbox
def test_no_file_of_the_user_is_there(tmp_path):
    (tmp_path / "mine").write_text(TOKEN)
    here = Path(__file__).resolve()
    paths = [str(p) for p in (here, here.parents[2], tmp_path / "mine", Path.home() / ".bashrc", Path.cwd(), "/root")]
    paths += ["/work", "/home", "/etc/passwd", "/etc/hostname", "/var", "/run", "/mnt", "/opt"]
    assert said(f"import os\nprint([p for p in {paths} if os.path.exists(p)])") == "[]"
    top = set(eval(said("import os\nprint(os.listdir('/'))")))
    assert top <= {"usr", "bin", "sbin", "lib", "lib64", "lib32", "libx32", "proc", "dev", "tmp", "packages", "python"}


@needs_sandbox
def test_the_system_is_read_only():
    source = """
import os
for path in ('/', '/usr', '/usr/bin', '/bin', '/lib', '/packages', '/python', '/proc', '/proc/sys/kernel', '/dev'):
    try:
        open(path + '/kappo-probe', 'w').close()
        print('wrote', path)
    except OSError: pass
for path in ('/usr/bin/env', os.__file__):
    for act in (os.unlink, lambda p: os.chmod(p, 0o777), lambda p: open(p, 'a')):
        try: act(path); print('changed', path)
        except OSError: pass
"""
    assert said(source) == ""


@needs_sandbox
def test_tmp_is_its_own_and_empty(tmp_path):
    mark = Path("/tmp") / f"kappo-outside-{os.getpid()}"
    mark.write_text("x")
    try:
        listing = "import os\nprint(os.listdir('/tmp'), os.listdir('/dev/shm'), os.getcwd())"
        assert said(listing) == "[] [] /tmp"
        name = f"kappo-inside-{os.getpid()}"
        assert said(f"open('/tmp/{name}', 'w').write('x')\nopen('/dev/shm/{name}', 'w').write('x')") == ""
        assert not Path("/tmp", name).exists()
        assert not Path("/dev/shm", name).exists()
        assert said(listing) == "[] [] /tmp"
    finally:
        mark.unlink()


@needs_sandbox
def test_a_test_finds_nothing_of_the_one_before():
    leave = "import os\nprint(os.listdir('/tmp') + os.listdir('/dev/shm'))\nos.makedirs('/tmp/a/b')\n"
    assert ask(leave + "open('/dev/shm/x', 'w')", ("", "", "")) == [("text", "[]\n")] * 3


@needs_sandbox
def test_it_has_its_own_processes_and_no_rights():
    source = """
import os
print(sorted(int(p) for p in os.listdir('/proc') if p.isdigit()) == sorted({1, os.getpid()}))
print(os.getuid() != 0 and os.geteuid() != 0)
status = dict(line.split(':', 1) for line in open('/proc/self/status'))
print(int(status['CapEff'], 16), int(status['CapPrm'], 16), status['NoNewPrivs'].strip())
"""
    assert said(source).split("\n") == ["True", "True", "0 0 1"]


@needs_sandbox
def test_ways_out_are_shut():
    source = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for name, call in {
    'mount': lambda: libc.mount(b'none', b'/tmp', b'tmpfs', 0, None),
    'umount': lambda: libc.umount2(b'/usr', 2),
    'network': lambda: libc.unshare(0x40000000),
    'pivot': lambda: libc.syscall(155, b'/tmp', b'/tmp'),
    'chroot': lambda: libc.chroot(b'/tmp'),
    'hostname': lambda: libc.sethostname(b'x', 1),
    'reboot': lambda: libc.reboot(0x1234567),
    'setuid': lambda: libc.setuid(0),
}.items():
    if call() == 0: print(name)
for call in (lambda: os.mknod('/tmp/sda', 0o60600, os.makedev(8, 0)), lambda: os.nice(-5)):
    try: call(); print('device or priority')
    except OSError: pass
"""
    assert said(source) == ""


@needs_sandbox
def test_no_set_user_id_program_helps():
    source = "import os, subprocess, shutil\nfor p in ('su', 'mount', 'sudo', 'passwd'):\n    p = shutil.which(p)\n"
    source += "    r = p and subprocess.run([p], capture_output=True, stdin=0)\n"
    source += "print(subprocess.run(['id', '-u'], capture_output=True, text=True).stdout.strip() != '0')"
    assert said(source) == "True"


@needs_sandbox
@pytest.mark.parametrize(
    ("limits", "source", "kind"),
    [
        ({"memory_mb": 256}, "x = bytearray(300 << 20)", "error"),
        ({"memory_mb": 256}, "x = bytearray(100 << 20)\nprint(1)", "text"),
        ({"output_mb": 1}, "print('x' * (2 << 20))", "output"),
        ({"output_mb": 2}, "print('x' * (1 << 20))", "text"),
        ({"output_mb": 1}, "open('/tmp/x', 'wb').write(bytes(2 << 20))", "error"),
        ({"files": 16}, "f = [open('/dev/null') for _ in range(20)]", "error"),
        ({"files": 64}, "f = [open('/dev/null') for _ in range(20)]", "text"),
        ({"processes": 6}, "import os, time\nfor _ in range(9):\n    if not os.fork(): time.sleep(9)", "error"),
        (
            {"processes": 24},
            "import os\nfor _ in range(9):\n    if not os.fork(): os._exit(0)\nfor _ in range(9): os.wait()",
            "text",
        ),
        (
            {"processes": 6},
            "import threading as t\nfor _ in range(9): t.Thread(target=t.Event().wait).start()",
            "timeout",
        ),
        ({}, "while True: pass", "timeout"),
        ({}, "import time\ntime.sleep(99)", "timeout"),
        ({"seconds": 3.0}, "import time\ntime.sleep(1.2)", "text"),
    ],
)  # fmt: skip
def test_limits(limits, source, kind):
    box = Sandbox(**{"seconds": 1.0, "total_seconds": 5.0, **limits})
    begun = time.monotonic()
    assert ask(source, box=box)[0][0] == kind
    assert time.monotonic() - begun < 15
    assert said("print(7)", box=box) == "7"


@needs_sandbox
def test_the_memory_of_all_processes_together_is_limited_however_busy_they_are():
    """Each stays below its own limit, and keeps the watcher awake by noise that is read."""
    source = """
import os, time
for _ in range(8):
    if not os.fork():
        x = bytearray(100 << 20)
        for i in range(0, len(x), 4096): x[i] = 1
        while True: os.write(2, b'x' * 65536)
time.sleep(9)
"""
    box = Sandbox(seconds=5.0, total_seconds=8.0, memory_mb=256)
    begun = time.monotonic()
    assert ask(source, box=box) == [("error", "memory")]
    assert time.monotonic() - begun < 5


@needs_sandbox
def test_a_lost_sandbox_costs_one_test():
    source = """
import os, time
n = int(input())
if n % 2:
    for _ in range(8):
        if not os.fork():
            x = b'1' * (100 << 20)
            time.sleep(9)
    time.sleep(9)
print(n)
"""
    box = Sandbox(seconds=5.0, total_seconds=30.0, memory_mb=256)
    found = ask(source, ("0", "1", "2", "3", "5", "4"), box)
    assert [kind for kind, _ in found] == ["text", "error", "text", "error", "error", "text"]
    assert [found[k][1] for k in (0, 2, 5)] == ["0\n", "2\n", "4\n"]


HOSTILE = {
    "loop": "while True: pass",
    "fork bomb": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "sleepers": "import subprocess\nfor _ in range(9): subprocess.Popen(['sleep', '{mark}'], start_new_session=True)",
    "double fork": "import os\nif not os.fork():\n    os.fork() or os.execlp('sleep', 'sleep', '{mark}')",
    "kills all": "import os\nos.kill(-1, 9)",
    "stops all": "import os, signal\nos.kill(-1, signal.SIGSTOP)",
    "stops process 1": "import ctypes\nctypes.CDLL(None).ptrace(16, 1, 0, 0)\nimport time\ntime.sleep(99)",
    "output": "while True: print('x' * 10000)",
    "files": "for n in range(10**6): open(f'/tmp/{{n}}', 'w').write('x' * 1000)",
    "memory": "x = []\nwhile True: x.append(bytearray(10**7))",
    "closes all": "import os\nos.closerange(0, 999)",
}


def left_over(mark):
    """Processes of this one, and any in the machine that carries the mark."""
    found = [p.pid for p in psutil.Process().children(recursive=True)]
    for process in psutil.process_iter(["cmdline"]):
        if mark in (process.info["cmdline"] or []):
            found.append(process.pid)
    return found


@needs_sandbox
@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_is_left_of_a_hostile_program(name):
    mark = f"98.{os.getpid()}{list(HOSTILE).index(name)}"
    box = Sandbox(seconds=0.5, total_seconds=2.0, output_mb=2, memory_mb=512)
    before = (left_over(mark), set(os.listdir("/proc/self/fd")), set(os.listdir("/tmp")), threading.active_count())
    shm = set(os.listdir("/dev/shm"))
    tests = ("",) if name == "stops process 1" else ("", "")  # this one takes the grace time of the sandbox
    assert len(ask(HOSTILE[name].format(mark=mark), tests, box)) == len(tests)
    after = (left_over(mark), set(os.listdir("/proc/self/fd")), set(os.listdir("/tmp")), threading.active_count())
    assert after[0] == before[0] == []
    assert after[1] == before[1]
    ours = [path for path in after[2] - before[2] if mark in path or path.isdigit()]
    assert not ours
    assert after[3] == before[3]
    assert set(os.listdir("/dev/shm")) - shm == set()
    assert said("print(7)") == "7"


@needs_sandbox
def test_the_caller_keeps_no_zombies():
    """Each sandbox's first process is collected, not left to the machine's process 1."""

    def zombies():
        return sum(p.info["status"] == psutil.STATUS_ZOMBIE for p in psutil.process_iter(["status"]))

    before = zombies()
    for _ in range(12):
        ask("while True: pass", box=Sandbox(seconds=0.05, total_seconds=0.1))
    assert zombies() - before < 6


@needs_sandbox
def test_signal_handlers_of_the_caller_stay():
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD, signal.SIGPIPE, signal.SIGHUP]
    before = [signal.getsignal(number) for number in numbers]
    heard = []
    old = signal.signal(signal.SIGALRM, lambda *_: heard.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        assert ask("while True: pass")[0][0] == "timeout"
        assert heard == [1]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert [signal.getsignal(number) for number in numbers] == before


@needs_sandbox
def test_from_threads():
    found, threads = {}, []
    for k in range(4):
        threads.append(threading.Thread(target=lambda k=k: found.update({k: said(f"print({k})")})))
        threads[-1].start()
    for thread in threads:
        thread.join()
    assert found == {k: str(k) for k in range(4)}


@needs_sandbox
def test_from_asyncio_while_its_loop_goes_on():
    async def both():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.02)
                ticks += 1

        clock = asyncio.create_task(tick())
        found = await asyncio.gather(*(asyncio.to_thread(ask, s) for s in ("print(1)", "while True: pass", "print(3)")))
        clock.cancel()
        return found, ticks

    found, ticks = asyncio.run(both())
    assert [answers[0][0] for answers in found] == ["text", "timeout", "text"]
    assert ticks >= 5


def _child(queue):
    queue.put(ask("print(int(input()) + 1)", ("1", "2")))


@needs_sandbox
@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_from_a_child_process(method):
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=_child, args=(queue,))
    child.start()
    assert queue.get(timeout=60) == [("text", "2\n"), ("text", "3\n")]
    child.join(30)
    assert child.exitcode == 0


@needs_sandbox
def test_it_ends_with_a_caller_that_is_killed():
    mark = f"97.{os.getpid()}"
    ready, wake = os.pipe()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            os.write(wake, b"x")
            ask(
                f"import subprocess\nsubprocess.run(['sleep', '{mark}'])", box=Sandbox(seconds=60.0, total_seconds=60.0)
            )
        os._exit(0)
    os.read(ready, 1)
    os.close(ready)
    os.close(wake)
    until = time.monotonic() + 20
    while not left_over_with(mark) and time.monotonic() < until:
        time.sleep(0.05)
    assert left_over_with(mark)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    while left_over_with(mark) and time.monotonic() < until:
        time.sleep(0.05)
    assert not left_over_with(mark)


def left_over_with(mark):
    return [p.pid for p in psutil.process_iter(["cmdline"]) if mark in (p.info["cmdline"] or [])]


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


def test_a_package_that_is_not_installed_is_named():
    with pytest.raises(ValueError, match=r"sandbox\.packages: no_such_package is not installed"):
        backends.bubblewrap(Sandbox(packages=["no_such_package"]))


@needs_sandbox
def test_packages_are_what_is_named():
    assert said("import numpy, sortedcontainers\nprint(numpy.arange(3).sum())") == "3"
    for name in ("pytest", "scipy", "torch", "kappo"):
        ((kind, text),) = ask(f"import {name}")
        assert (kind, text.split(":")[0]) == ("error", "ModuleNotFoundError")


@pytest.mark.parametrize(
    "wrong", [{"seconds": 0}, {"memory_mb": 1}, {"output_mb": 0}, {"processes": 1}, {"files": 1}, {"backend": "docker"}]
)
def test_limits_are_checked(wrong):
    (name,) = wrong
    with pytest.raises(UserError, match=name):
        build(Sandbox, wrong)
