"""Run seeds one after another, and report those that fail."""

from __future__ import annotations

import shutil
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path

from schedule import Schedule, schedule_of
from shrinking import shrunk
from world import World


@dataclass(frozen=True)
class Failed:
    """A seed that failed, and the shortest schedule found that fails as it did."""

    seed: int
    why: str
    schedule: Schedule
    trace: str

    def __str__(self) -> str:
        return f"{self.why}\n{self.schedule}\nagain: python -m tests.simulation --seed {self.seed}\n{self.trace}"


def failure_of(schedule: Schedule) -> BaseException | None:
    """The error of a schedule; None: it ends without one."""
    home = Path(tempfile.mkdtemp(prefix="umi-simulation-"))
    try:
        World(home, schedule).run()
    except Exception as error:  # noqa: BLE001 whatever it is, it is the finding
        return error
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return None


def kind_of(error: BaseException) -> str:
    """The kind of an error, which stays the same while its schedule is shortened."""
    return f"{type(error).__name__} {str(error).split(':')[0][:60]}"


def run_seed(seed: int, *, shrink: bool = True) -> Failed | None:
    """Run the schedule of a seed; returns its failure. None: all laws hold."""
    schedule = schedule_of(seed)
    error = failure_of(schedule)
    if error is None:
        return None
    kind = kind_of(error)

    def fails(candidate: Schedule) -> bool:
        found = failure_of(candidate)
        return found is not None and kind_of(found) == kind

    short = shrunk(schedule, fails) if shrink else schedule
    last = failure_of(short) or error
    trace = "".join(traceback.format_exception(type(last), last, last.__traceback__)[-6:])
    return Failed(seed, f"{type(last).__name__}: {last}", short, trace)


def run_seeds(count: int, first: int = 0) -> Failed | None:
    """Run `count` seeds from `first` on; returns the first failure. None: all laws hold."""
    for seed in range(first, first + count):
        failed = run_seed(seed)
        if failed is not None:
            return failed
    return None
