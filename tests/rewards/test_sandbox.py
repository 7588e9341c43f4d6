"""What a program inside the sandbox can see and take."""

import os
import socket
import sys
import time
from pathlib import Path

import pytest

from kappo.config import build
from kappo.errors import UserError
from kappo.rewards import backends
from kappo.rewards.sandbox import Sandbox
from kappo.rewards.system_calls import rules
from tests.rewards.boxes import TOKEN, ask, needs_sandbox, said


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
    assert set(eval(text.split("\n")[0])) <= {*backends.ENVIRONMENT, "PWD", "LC_CTYPE", "LD_LIBRARY_PATH"}


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


def test_a_package_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr(backends, "_found", lambda name: f"/usr/bin/{name}")
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


@needs_sandbox
def test_it_is_this_python():
    assert said("import sys\nprint(sys.version)") == sys.version
    assert said("from multiprocessing import shared_memory as s\nx = s.SharedMemory('k', True, 9)\nx.unlink()") == ""


@needs_sandbox
@pytest.mark.skipif(not rules(), reason="no filter of system calls for this kind of machine")
@pytest.mark.parametrize("call", ["shmget(0, 1 << 20, 0o1666)", "msgget(0, 0o1666)", "ptrace(16, 1, 0, 0)"])
def test_calls_that_pass_the_limits_are_refused(call):
    source = f"import ctypes\nc = ctypes.CDLL(None, use_errno=True)\nprint(c.{call}, ctypes.get_errno())"
    assert said(source) == "-1 1"
    assert ask("import os\nos.memfd_create('x')") == [("error", "PermissionError: [Errno 1] Operation not permitted")]
