import asyncio
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from kappo.rewards import pool as pools
from kappo.rewards.pool import Pool, pool

RIGHT, WRONG = (r"2\sqrt2", r"\sqrt8"), (r"2\sqrt2", r"\sqrt9")
ENDLESS = (r"\lim_{x\to 0} 9^{9^{9^9}}", r"\lim_{x\to 0} 9^{9^{9^{9^9}}}")


@pytest.fixture
def small():
    made = Pool(1)
    yield made
    made.close()


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as handle:
            return handle.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_until(done, seconds=15):
    until = time.monotonic() + seconds
    while not done() and time.monotonic() < until:
        time.sleep(0.05)
    return done()


def test_verdicts_and_their_order(small):
    assert [verdict for verdict, _ in small.ask_many([RIGHT, WRONG, RIGHT], 10)] == ["right", "wrong", "right"]
    assert len(small.alive) == 1


def test_an_endless_question_costs_its_own_limit_only(small):
    assert small.ask(RIGHT, 10)[0] == "right"
    (first,) = small.alive
    begun = time.monotonic()
    verdict, took = small.ask(ENDLESS, 1.0)
    assert verdict == "timeout"
    assert 0.9 < took < 5
    assert time.monotonic() - begun < 10
    assert first.process.poll() is not None
    assert small.ask(RIGHT, 10)[0] == "right"


def test_a_worker_that_dies_is_one_crash(small):
    small.ask(RIGHT, 10)
    (worker,) = small.alive
    os.kill(worker.process.pid, signal.SIGSEGV)
    worker.process.wait()
    assert small.ask(RIGHT, 10)[0] == "crash"
    assert small.ask(RIGHT, 10)[0] == "right"


def test_workers_are_replaced(small, monkeypatch):
    monkeypatch.setattr(pools, "MOST_QUESTIONS", 2)
    seen = set()
    for _ in range(4):
        small.ask(RIGHT, 10)
        seen |= {worker.process.pid for worker in small.alive}
    assert len(seen) == 2
    assert not small.alive


def test_threads_and_asyncio_share_it():
    shared = pool(2)
    found = []
    threads = [threading.Thread(target=lambda: found.append(shared.ask(RIGHT, 20)[0])) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["right"] * 6

    async def many():
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*(loop.run_in_executor(None, shared.ask, WRONG, 20) for _ in range(6)))

    assert [verdict for verdict, _ in asyncio.run(many())] == ["wrong"] * 6
    assert len(shared.alive) <= 2


def _ask_in_child(queue):
    verdict = pool(2).ask(RIGHT, 20)[0]
    queue.put((verdict, [worker.process.pid for worker in pool(2).alive]))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_start_their_own(method):
    mine = pool(2)
    assert mine.ask(RIGHT, 20)[0] == "right"
    ours = {worker.process.pid for worker in mine.alive}
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=_ask_in_child, args=(queue,))
    child.start()
    verdict, theirs = queue.get(timeout=120)
    child.join()
    assert verdict == "right"
    assert not ours & {*theirs}
    gc.collect()
    assert all(not gone(pid) for pid in ours)
    assert pool(2).ask(WRONG, 20)[0] == "wrong"
    assert wait_until(lambda: all(gone(pid) for pid in theirs))


SCRIPT = """
import os, sys
from kappo.rewards.pool import pool
print(pool(1).ask((r"2\\sqrt2", r"\\sqrt8"), 20)[0], next(iter(pool(1).alive)).process.pid, flush=True)
{end}
"""


@pytest.mark.parametrize("end", ["", "os._exit(3)", "os.kill(os.getpid(), 9)", "raise SystemExit(1)"])
def test_nothing_is_left_when_the_caller_ends(end, tmp_path):
    script = tmp_path / "unguarded.py"
    script.write_text(SCRIPT.format(end=end))
    (tmp_path / "random.py").write_text("raise ImportError('a file of the user that hides a module')")
    environment = {**os.environ, "PYTHONPATH": pools.PACKAGES}
    done = subprocess.run([sys.executable, "-P", script], capture_output=True, text=True, env=environment, cwd=tmp_path)
    verdict, pid = done.stdout.split()
    assert verdict == "right"
    assert wait_until(lambda: gone(int(pid)))


def test_the_caller_keeps_its_signal_handlers(small):
    before = [signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGCHLD, signal.SIGTERM)]
    small.ask(ENDLESS, 0.3)
    assert [signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGCHLD, signal.SIGTERM)] == before
