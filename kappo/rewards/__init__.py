"""Graders: each a dataclass with `grade(problem, text) -> Grade`; pure and picklable."""
