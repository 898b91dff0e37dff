"""For every test: Hypothesis waits as long as a busy machine needs, and no warning counts as logged before.

For tests of several rooms: `while_texts_are_indexed`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from umi_common.runtime import losses

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture(autouse=True)
def no_warning_logged_yet():
    """As in a new process, which logs each warning once and at most 100."""
    losses._logged.clear()


@pytest.fixture
def while_texts_are_indexed(monkeypatch):
    """A function (write, read): begins the write in a thread, and returns what `read` returns while the texts of the
    write are not yet indexed. They are indexed when `read` has returned, or after 10 seconds; `read` must take less
    than 5.
    """
    from umi_common.stores.lexical.index import LexicalIndex

    indexing, end, update = threading.Event(), threading.Event(), LexicalIndex.update

    def slow_update(self: LexicalIndex, *rows: object, **removed: object) -> None:
        indexing.set()
        end.wait(10)
        update(self, *rows, **removed)

    def run(write: Callable[[], object], read: Callable[[], Any]) -> Any:
        monkeypatch.setattr(LexicalIndex, "update", slow_update)
        writer = threading.Thread(target=write)
        writer.start()
        assert indexing.wait(10)
        begun = time.monotonic()
        found = read()
        took = time.monotonic() - begun
        end.set()
        writer.join()
        assert took < 5
        return found

    return run
