"""Each system runs in a child process: it makes its data from the seed, builds, answers and measures its own time.

No system's threads, caches or memory disturb another's, and the pipe is in no figure.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.harness import Answer, Plan, Prepare, Skipped, Spec


@dataclass
class Child:
    """One system in its own process."""

    prepare: Prepare
    spec: Spec
    seconds: float = 0.0
    """Seconds of the build, without making the data."""
    megabytes: float = 0.0
    """Resident memory that the build added and kept."""
    _pipe: Any = None
    _process: Any = None

    def build(self, seconds_max: float) -> None:
        """Start the process, make the data, build. Raises Skipped."""
        spawn = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_serve, args=(theirs, self.prepare, self.spec), daemon=False)
        self._process.start()
        theirs.close()
        self.seconds, self.megabytes = self._answer(seconds_max, "the build")

    def call(self, *arguments: Any) -> Any:
        """The work's answer. Raises Skipped if the child died or failed."""
        self._pipe.send(arguments)
        return self._answer(600.0, "a round")

    def _answer(self, seconds_max: float, what: str) -> Any:
        try:
            if not self._pipe.poll(seconds_max):
                raise Skipped(f"{what} took more than {seconds_max:.0f} s")
            kind, value = self._pipe.recv()
        except EOFError:
            raise Skipped(f"its process ended during {what}") from None
        if kind == "skipped":
            raise Skipped(value)
        return value

    def close(self) -> None:
        """End the process."""
        if self._process is None:
            return
        with suppress(OSError):
            self._pipe.send(None)
        self._process.join(10.0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _serve(pipe: Connection, prepare: Prepare, spec: Spec) -> None:
    """Runs in the child: builds, then answers requests until the pipe closes."""
    try:
        build = prepare(spec)
        before = resident_megabytes()
        begun = time.perf_counter()
        work = build()
        seconds = time.perf_counter() - begun
        pipe.send(("built", (seconds, resident_megabytes() - before)))
        while (arguments := pipe.recv()) is not None:
            pipe.send(("answer", work(*arguments)))
    except ModuleNotFoundError as error:
        pipe.send(("skipped", f"{error.name} is not installed"))
    except Skipped as reason:
        pipe.send(("skipped", str(reason)))
    except EOFError:
        return
    except Exception as error:  # noqa: BLE001 a peer may fail in any way; the row says how
        pipe.send(("skipped", f"{type(error).__name__}: {error}"[:200]))


def resident_megabytes() -> float:
    """Resident memory of this process after garbage collection, in MB; 0 where the system does not report it."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * 4096 / 1e6


@dataclass
class Outcome:
    """The measurements of one system."""

    rounds: list[list[float]] = field(default_factory=list)
    """Milliseconds a question, by round."""
    worked: list[list[float]] = field(default_factory=list)
    """Milliseconds of processor time a question, by round; other load on the machine changes these little."""
    found: dict[int, list[int]] = field(default_factory=dict)
    """Rows by question."""
    again: list[float] = field(default_factory=list)
    """Milliseconds of the first round's questions, asked again at the end; shows what caches save."""
    seconds: float = 0.0
    megabytes: float = 0.0
    skipped: str | None = None


def ask_in_turn(
    systems: Mapping[str, Prepare], spec: Spec, plan: Plan, say: Callable[[str], None]
) -> dict[str, Outcome]:
    """Build every system, query all of them in every round, and repeat the first round's questions at the end."""
    circle = _Circle(spec, plan, say)
    try:
        for name, prepare in systems.items():
            circle.join(name, prepare)
        for at in range(plan.rounds):
            for name in list(circle.children):
                circle.round(name, at)
        for name in list(circle.children):
            circle.outcomes[name].again = [wall for wall, _, _ in circle.ask(name, plan.of_round(0))]
    finally:
        for child in circle.children.values():
            child.close()
    return circle.outcomes


@dataclass
class _Circle:
    """The systems that have not failed, and the measurements of all."""

    spec: Spec
    plan: Plan
    say: Callable[[str], None]
    children: dict[str, Child] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)

    def join(self, name: str, prepare: Prepare) -> None:
        """Build, and ask the warm-up questions."""
        child, outcome = Child(prepare, self.spec), Outcome()
        self.children[name], self.outcomes[name] = child, outcome
        try:
            child.build(self.plan.build_seconds)
        except Skipped as reason:
            self._leave(name, reason)
            return
        outcome.seconds, outcome.megabytes = child.seconds, child.megabytes
        self.say(f"{name}: built in {child.seconds:.1f} s")
        self.ask(name, range(self.plan.warm_up))

    def round(self, name: str, at: int) -> None:
        """Ask the questions of a round and keep the answers."""
        numbers = self.plan.of_round(at)
        if answers := self.ask(name, numbers):
            outcome = self.outcomes[name]
            outcome.rounds.append([wall for wall, _, _ in answers])
            outcome.worked.append([processor for _, processor, _ in answers])
            outcome.found.update(zip(numbers, [rows for _, _, rows in answers], strict=False))

    def ask(self, name: str, numbers: Sequence[int]) -> list[Answer]:
        """The answers; none if the system fails; it is not queried again."""
        try:
            answers: list[Answer] = self.children[name].call(list(numbers), self.plan.seconds)
        except Skipped as reason:
            self._leave(name, reason)
            return []
        return answers

    def _leave(self, name: str, reason: Skipped) -> None:
        self.outcomes[name].skipped = str(reason)
        self.children.pop(name).close()
        self.say(f"{name}: left out, {reason}")
