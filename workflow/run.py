"""Run a study through Snakemake, one workflow at a time, and say what came of it. `make demo` calls this.

Holds results/.workflow.lock; having it, it clears the Snakemake lock that a killed run left behind.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from kappo import studies  # noqa: E402
from kappo.errors import UserError  # noqa: E402
from kappo.folders import acquire  # noqa: E402

DEFAULT = "embedded,embedded_code,theory"
NOTHING = "Nothing to be done"


def main() -> int:
    parser = argparse.ArgumentParser(prog="workflow/run.py", description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--study", default=DEFAULT, help=f"files of conf/study/, with commas between ({DEFAULT})")
    parser.add_argument("--replicates", type=int, help="run replicates 0 .. N - 1 (default: the study's own list)")
    parser.add_argument("--cores", type=int, default=os.cpu_count(), help="jobs at a time, at least 1")
    parser.add_argument("--set", default="", help="overrides, such as 'train.steps=50 tracking=disabled'")
    parser.add_argument("snakemake", nargs="*", help="further arguments for Snakemake, after --")
    arguments = parser.parse_args()
    if arguments.cores < 1:
        parser.error(f"--cores {arguments.cores}: expected at least 1")
    started = time.monotonic()
    try:
        plans = studies.plans(arguments.study, studies.split_settings(arguments.set), arguments.replicates)
        results = next(iter(plans.values())).results
        lock = acquire(results / ".workflow.lock", f"the workflow of {results}/", grace=0)
    except UserError as error:
        print(f"kappo: error: {error}", file=sys.stderr)
        return 2
    with lock:
        try:
            code, nothing = run_snakemake(arguments, lock.fileno())
        except KeyboardInterrupt:
            print("\nInterrupted; finished parts are kept. Run the same command to go on.", file=sys.stderr)
            return 130
    if code:
        print(
            "\nThe study stopped early; finished parts are kept. Mend the error above and run it again.",
            file=sys.stderr,
        )
        return code
    if "-n" not in arguments.snakemake and "--dry-run" not in arguments.snakemake:
        report(plans, nothing, time.monotonic() - started)
    return 0


def snakemake_here() -> bool:
    """Whether a Snakemake of this user's own lives in this folder: its lock is then not stale."""
    for process in psutil.process_iter(["cmdline", "cwd"]):
        called = any(Path(word).name in ("snakemake", "Snakefile") for word in process.info["cmdline"] or ())
        if called and process.info["cwd"] == os.getcwd() and process.pid != os.getpid():
            return True
    return False


def run_snakemake(arguments: argparse.Namespace, lock: int) -> tuple[int, bool]:
    """Exit code, and whether there was nothing to do. Children inherit the lock: it lives as long as Snakemake does."""
    snakemake = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
    config = ["--config", f"study={arguments.study}", f"set={arguments.set}"]
    if arguments.replicates is not None:
        config.append(f"replicates={arguments.replicates}")
    if any(Path(".snakemake/locks").glob("*")) and not snakemake_here():
        subprocess.run([*snakemake, "--cores", "1", *config, "--unlock"], check=False, capture_output=True)
    command = [
        *snakemake,
        "--cores",
        str(arguments.cores),
        "--quiet",
        "host",
        "reason",
        *config,
        "--",
        *arguments.snakemake,
    ]
    if arguments.snakemake and arguments.snakemake[0].startswith("-"):
        command.remove("--")
    nothing = False
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, pass_fds=[lock], env={**os.environ, "KAPPO_RUNNER": str(os.getpid())}
    ) as process:
        assert process.stderr is not None
        for line in iter(process.stderr.readline, b""):
            nothing |= NOTHING.encode() in line
            sys.stderr.buffer.write(line)
            sys.stderr.buffer.flush()
    return process.returncode, nothing


def report(plans: dict[str, studies.Plan], nothing: bool, seconds: float) -> None:
    """Print each study's summary and verdict, and where things are."""
    if nothing:
        print("\nNothing to do: every result is up to date.")
    for name, plan in plans.items():
        print(f"\n{name}\n{'-' * len(name)}")
        print((plan.folder / "tables" / "summary.txt").read_text())
        if not plan.study.tunes:
            print(f"figures  {plan.folder}/figures/ (PDF, PNG, CSV: {', '.join(plan.study.figures)})")
        print(f"tables   {plan.folder}/tables/")
    print(f"\nruns     {plan.results}/runs/ (metrics.jsonl, checkpoints; W&B offline runs in wandb/)")
    print(f"finished in {seconds:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
