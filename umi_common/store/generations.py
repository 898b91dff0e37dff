"""Who makes and minds the Chroma generations of a store: one thread, which never keeps a search waiting.

While no generation is ready the exact scan answers. A generation is opened only after a child process has opened it
and lived; one that is damaged is replaced by the next, built from the ledger in a child process as well.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from umi_common.config import DenseConfig
from umi_common.store.chroma import FOLDER, Generation, Manifest
from umi_common.store.failpoints import failpoint
from umi_common.store.ledger import Ledger, Mark

log = logging.getLogger(__name__)

TAIL_SHARE = 0.1
"""Share of rows newer than the generation above which the next one is built."""
DEAD_SHARE = 0.3
"""Share of removed chunks in a generation above which the next one starts from nothing."""
QUIET_SECONDS = 1.0
"""A build waits until nothing was written for so long."""
BUILD_SECONDS = 24 * 3600.0
FAILURES_MAX = 3
"""Builds that may fail before the exact scan is left to answer until the store is opened again."""
TICK_SECONDS = 0.05
PREFIX = "gen-"


class Generations:
    """The generations of one open store; does nothing in memory, read-only, or below the threshold.

    Args:
        ledger: What they are built from.
        directory: The store's; None: in memory.
        config: The settings in force when asked.
    """

    def __init__(self, ledger: Ledger, directory: Path | None, config: Callable[[], DenseConfig]) -> None:
        self.current: Generation | None = None
        self.fault: str | None = None
        """Why the exact scan answers in place of Chroma; None: it answers by right."""
        self._ledger = ledger
        self._home = None if directory is None or ledger.read_only else directory / FOLDER
        self._config = config
        self._wanted = (Mark(), 0)
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        self._failures = 0
        self._retired: list[Generation] = []
        self._thread: threading.Thread | None = None

    def follow(self, mark: Mark, living: int) -> None:
        """Hear of the store's present size; starts the work where there is some."""
        self._wanted = (mark, living)
        current = self.current
        if current is not None and (current.manifest.epoch != mark.epoch or living <= self._config().exact_up_to):
            self._retire()
        if self._home is None or self._stop.is_set() or not self._work():
            return
        self._idle.clear()
        self._wake.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="umi-dense", daemon=True)
            self._thread.start()

    def give_up(self, generation: Generation, reason: str) -> None:
        """A search met a damaged generation: make the next one."""
        if self.current is generation:
            self._retire()
            self.fault = reason
            shutil.rmtree(generation.directory, ignore_errors=True)
            self.follow(*self._wanted)

    def settle(self, seconds: float) -> bool:
        """Wait until there is nothing to do; whether that came to pass."""
        return self._idle.wait(seconds)

    def describe(self) -> str:
        """Which engine answers, in a line."""
        current = self.current
        if current is not None:
            return f"chroma, {current.directory.name}, {current.manifest.count} vectors"
        return "exact" if self.fault is None else f"exact; {self.fault}"

    def drop(self) -> None:
        """Forget all generations; new ones are built where the store is large enough."""
        self._retire()
        self.fault, self._failures = None, 0
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)
        self.follow(*self._wanted)

    def close(self) -> None:
        """End thread and child; nothing half-made is left that counts."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5.0)
        self._retire()
        for generation in self._retired:
            generation.close()
        self._retired.clear()

    def _retire(self) -> None:
        """Close the one before: a search may still be reading the present one."""
        current, self.current = self.current, None
        if current is not None:
            for generation in self._retired:
                generation.close()
            self._retired = [current]

    def _work(self) -> bool:
        """Whether the present generation no longer does."""
        mark, living = self._wanted
        if living <= self._config().exact_up_to or self._failures >= FAILURES_MAX:
            return False
        current = self.current
        return current is None or mark.seq - current.manifest.seq > TAIL_SHARE * living

    def _run(self) -> None:
        opened = False
        while not self._stop.is_set():
            self._wake.wait()
            if not opened:
                self._wake.clear()
                opened = True
                self._attempt(self._open_newest)
            while self._work() and self._wake.is_set():
                self._wake.clear()
                self._wake.wait(QUIET_SECONDS)
            if self._work() and not self._stop.is_set():
                self._attempt(self._build)
            if not self._wake.is_set():
                self._idle.set()

    def _attempt(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:  # noqa: BLE001 whatever Chroma does, the exact scan answers
            if not self._stop.is_set():
                self._failures += step == self._build
                self.fault = f"the Chroma index is out ({error})"[:200]
                log.warning("%s; exact search answers meanwhile", self.fault)

    def _open_newest(self) -> None:
        """Take over the newest generation on the disk, if it is whole and sound."""
        assert self._home is not None
        mark, _ = self._wanted
        numbers = self._numbers()
        for leftover in self._home.glob("*.new"):
            shutil.rmtree(leftover, ignore_errors=True)
        if not numbers:
            return
        directory = self._directory(numbers[-1])
        manifest = Manifest.read(directory)
        if manifest.epoch == mark.epoch and manifest.seq <= mark.seq:
            self._ask_child("probe", self._config().probe_seconds, target=directory)
            self._take(Generation(directory))

    def _build(self) -> None:
        assert self._home is not None
        mark, living = self._wanted
        number = self._next_number()
        unfinished = self._home / f"{PREFIX}{number:06d}.new"
        current = self.current
        base = None
        if current is not None and current.manifest.count <= (1 + DEAD_SHARE) * living:
            base = current.directory
        try:
            self._ask_child(
                "build",
                BUILD_SECONDS,
                target=unfinished,
                base=base,
                epoch=mark.epoch,
                seq=mark.seq,
                search_ef=self._config().search_ef,
            )
            failpoint("dense.built")
            self._ask_child("probe", self._config().probe_seconds, target=unfinished)
            failpoint("dense.publish")
            unfinished.replace(self._directory(number))
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        self._take(Generation(self._directory(number)))
        failpoint("dense.published")
        for older in self._numbers():
            if older != number:
                shutil.rmtree(self._directory(older), ignore_errors=True)

    def _take(self, generation: Generation) -> None:
        if self._wanted[0].epoch != generation.manifest.epoch or self._stop.is_set():
            generation.close()
            return
        self._retire()
        self.current, self.fault = generation, None

    def _next_number(self) -> int:
        # Counted in the ledger: Chroma remembers paths, so none is used twice, even when the folder was deleted.
        number = int(self._ledger.meta().get("generation", 0)) + 1
        self._ledger.set_meta({"generation": str(number)})
        return number

    def _numbers(self) -> list[int]:
        assert self._home is not None
        names = [path.name.removeprefix(PREFIX) for path in self._home.glob(f"{PREFIX}*")]
        return sorted(int(name) for name in names if name.isdigit())

    def _directory(self, number: int) -> Path:
        assert self._home is not None
        return self._home / f"{PREFIX}{number:06d}"

    def _ask_child(self, command: str, seconds: float, **arguments: Any) -> None:
        """Run `chroma_child`; raises RuntimeError if it fails, crashes or hangs."""
        paths: dict[str, Path | None] = {"ledger": self._ledger.path}
        paths.update({name: arguments.pop(name) for name in ("target", "base") if name in arguments})
        given = {"paths": {name: None if path is None else str(path) for name, path in paths.items()}, **arguments}
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        with tempfile.TemporaryFile() as said:
            child = subprocess.Popen(
                [sys.executable, "-m", "umi_common.store.chroma_child", command, json.dumps(given)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
            )
            deadline = time.monotonic() + seconds
            while child.poll() is None:
                if self._stop.wait(TICK_SECONDS) or time.monotonic() > deadline:
                    child.kill()
                    child.wait()
                    raise RuntimeError(f"{command} took more than {seconds:g} s")
            if child.returncode:
                said.seek(0)
                last = (said.read().decode("utf-8", "replace").strip().splitlines() or [""])[-1]
                raise RuntimeError(f"{command} ended with code {child.returncode}: {last}"[:160])
