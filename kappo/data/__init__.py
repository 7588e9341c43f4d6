"""Loaders: each a dataclass with `problems(seed)`; the embedded tasks are made, not loaded."""
