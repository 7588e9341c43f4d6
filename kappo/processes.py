"""Processes that must not outlive the one that started them."""

from __future__ import annotations

import os
import threading
import time

POLL_SECONDS = 0.5


def end_with_parent(parent: int | None = None) -> None:
    """Leave when the parent process is gone: every write is atomic, so any moment is a good one.

    parent: its pid, for those who may be called after it has died (default: the parent now).
    """
    parent = parent or os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(POLL_SECONDS)
        os._exit(75)

    threading.Thread(target=watch, daemon=True).start()
