"""What programs leave behind in the machine and in their caller: nothing, however they end."""

import asyncio
import contextlib
import multiprocessing
import os
import signal
import threading
import time

import psutil
import pytest

from kappo.rewards.sandbox import Sandbox
from tests.rewards.boxes import ask, needs_sandbox, said

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
    assert set(after[0]) <= set(before[0])
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
