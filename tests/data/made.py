"""Made-up rows in the columns of the public data sets, stand-ins, and how tests build a data set."""

from __future__ import annotations

import base64
import gzip
import json
import pickle
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kappo import compose
from kappo.records import Grade, Problem
from kappo.rewards.sandbox import Sandbox

STUB = f"{__name__}.Stub"
SUBJECTS = ("Algebra", "Counting & Probability", "Geometry", "Intermediate Algebra", "Number Theory", "Prealgebra")
CONFIGS = [
    "algebra",
    "counting_and_probability",
    "geometry",
    "intermediate_algebra",
    "number_theory",
    "prealgebra",
    "precalculus",
]


@dataclass(frozen=True)
class Stub:
    """A grader's place holder, with the settings of both: these tests are about data."""

    score: str = "pass_rate"
    workers: int = 1
    seconds: float = 1.0
    sandbox: Sandbox = field(default_factory=Sandbox)

    def grade(self, problem: Problem, text: str) -> Grade:
        return Grade(0.0, "wrong")


def data(name: str, *settings: str, reward: bool = True) -> Any:
    """A choice of conf/data with settings such as path=..., its graders replaced by the place holder."""
    graders = ["answers.reward", "programs.reward"] if name == "jsonl" else ["reward"]
    stubs = [f"data.{grader}._target_={STUB}" for grader in graders if reward]
    return compose.compose([f"data={name}", *(f"data.{s}" for s in settings), *stubs]).data


def write_lines(path: Path, rows: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def math_row(i: int, subject: str = "Algebra", level: str = "Level 3") -> dict[str, Any]:
    solution = rf"Half of {2 * i} is \boxed{{0}}? No: adding gives $\boxed{{\frac{{{i}}}{{2}}}}$."
    return {"problem": f"What is {i} halves of one?", "level": level, "type": subject, "solution": solution}


def leetcode_row(name: str = "add-two", **changes: Any) -> dict[str, Any]:
    row = {
        "task_id": name,
        "question_id": 1,
        "difficulty": "Medium",
        "tags": ["Math"],
        "problem_description": f"Add two numbers ({name}).",
        "starter_code": "class Solution:\n    def add(self, a: int, b: int) -> int:",
        "estimated_date": "2024-01-07",
        "prompt": "from typing import *\n",
        "completion": "class Solution:\n    def add(self, a, b):\n        return a + b\n",
        "entry_point": "Solution().add",
        "test": "def check(candidate):\n    assert candidate(a = 1,b = 2) == 3\n    assert candidate(a = 0,b = 0) == 0",
        "input_output": [{"input": "a = 1, b = 2", "output": "3"}],
        "query": f"Write a program.\n\n### Question:\nAdd two numbers ({name}).\n",
        "response": "",
    }
    return {**row, **changes}


STDIN = [{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}]
CALLS = [{"input": "[1, 2]\n3", "output": "[4, 5]", "testtype": "functional"}]


def encoded(tests: Any) -> str:
    """Private tests as LiveCodeBench encodes them."""
    return packed(pickle.dumps(json.dumps(tests)))


def packed(pickled: bytes) -> str:
    return base64.b64encode(zlib.compress(pickled)).decode()


def livecodebench_row(id: str = "abc1_d", calls: bool = False, **changes: Any) -> dict[str, Any]:
    tests = CALLS if calls else STDIN
    inputs = ["[5]\n6", "[7]\n8"] if calls else ["5 6\n", "7 8\n"]
    row = {
        "question_title": id,
        "question_content": f"Add what you are given ({id}).",
        "platform": "leetcode" if calls else "atcoder",
        "question_id": id,
        "contest_id": "abc1",
        "contest_date": "2025-02-01T00:00:00",
        "starter_code": "class Solution:\n    def add(self, xs: List[int], y: int) -> List[int]:" if calls else "",
        "difficulty": "hard",
        "public_test_cases": json.dumps(tests),
        "private_test_cases": encoded([{**tests[0], "input": input} for input in inputs]),
        "metadata": json.dumps({"func_name": "add"} if calls else {}),
    }
    return {**row, **changes}
