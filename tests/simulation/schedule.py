"""Schedules made from a seed: the steps of a writer, readers and searches in order, and the faults during them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from faulty_disk import KINDS, Fault

from umi_common.types import Chunk

START = datetime(2024, 1, 1, tzinfo=timezone.utc)
WORDS = ("red", "boat", "night", "train", "blue", "coast")
IDS = tuple(f"c{number}" for number in range(12))
TENANTS = ("ann", "bob")
WRITES = ("add", "delete", "delete where", "rebuild", "compact", "repair", "reindex")
STEPS_MIN, STEPS_MAX = 5, 24
FAULTY_SHARE = 0.2
"""Share of the writing steps during which the disk fails or the power is cut."""
IN_A_SEARCH = (1, 2, 3, 4, "stage 1", "stage 2", "stage 3", "LLM")
"""Points of a search at which other steps run: before a call of the store, at the start of a stage, during the LLM's
call."""
OF_A_WRITE = ("ledger.insert", "ledger.commit", "ledger.committed", "snapshot.files", "snapshot.publish")
OF_A_REBUILD = ("rebuild.dropped", "snapshot.files", "snapshot.publish", "snapshot.published")
"""Failpoints at which a write is held while others read."""
CONFIGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "decay": {"decay": {"half_life_hours": 24.0}},
    "mmr": {"mmr": {"enabled": True}, "recall": {"around": 2}},
    "rrf": {"fusion": {"method": "rrf"}, "neighbours": {"enabled": False}},
}


@dataclass(frozen=True)
class Step:
    """One operation on a store."""

    kind: str
    what: dict[str, Any] = field(default_factory=dict)
    during: tuple[tuple[int | str, tuple[Step, ...]], ...] = ()
    """Steps that run during it: at a point `IN_A_SEARCH`, or while a write is held at a failpoint."""
    fault: Fault | None = None


@dataclass(frozen=True)
class Schedule:
    """All steps of one store."""

    seed: int
    config: str
    """A name in `CONFIGS`."""
    save_every: int
    """Number of changes after which the lexical snapshot is written."""
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        head = f"seed {self.seed}, settings {self.config!r}, a snapshot every {self.save_every} changes"
        return "\n".join([head, *_lines(self.steps, "  ")])


def _lines(steps: tuple[Step, ...], indent: str) -> list[str]:
    lines = []
    for number, step in enumerate(steps, 1):
        said = ", ".join(f"{name}={_shown(value)}" for name, value in step.what.items())
        fault = "" if step.fault is None else f"  [{step.fault.kind} at event {step.fault.at}, seed {step.fault.seed}]"
        lines.append(f"{indent}{number}. {step.kind} {said}{fault}".rstrip())
        for point, inner in step.during:
            where = f"before its store call {point}" if isinstance(point, int) else f"at {point}"
            lines += [f"{indent}   {where}:", *_lines(inner, indent + "     ")]
    return lines


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_shown(each) for each in value) + "]"
    if isinstance(value, Chunk):
        return f"{value.id}({value.metadata['user']}, {value.source}/{value.position}, {value.text!r})"
    return repr(value)


def schedule_of(seed: int) -> Schedule:
    """The schedule of a seed, the same on every machine."""
    return _Maker(random.Random(seed)).schedule(seed)


class _Maker:
    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.versions = 0
        self.made: list[Chunk] = []
        self.backups = 0

    def schedule(self, seed: int) -> Schedule:
        count = self.dice.randint(STEPS_MIN, STEPS_MAX)
        config, save_every = self.dice.choice(list(CONFIGS)), self.dice.choice((3, 10, 10_000))
        first = Step("add", {"chunks": self.chunks(self.dice.randint(3, 10))})
        return Schedule(seed, config, save_every, (first, *(self.step() for _ in range(count))))

    def step(self) -> Step:
        kinds = {
            "write": 14,
            "search": 12,
            "reopen": 3,
            "open reader": 1,
            "close reader": 1,
            "backup": 3,
            "restore": 4,
            "swap": 1,
            "damage": 2,
            "crash": 2,
            "wait": 1,
            "verify": 1,
        }
        kind = self.dice.choices(list(kinds), list(kinds.values()))[0]
        made: Step = getattr(self, "step_" + kind.replace(" ", "_"))()
        return made

    def step_write(self) -> Step:
        kind = self.dice.choices(WRITES, (20, 6, 2, 4, 2, 2, 1))[0]
        step = self.write(kind)
        if self.dice.random() < FAULTY_SHARE:
            return Step(step.kind, step.what, fault=self.fault(10 if kind in WRITES[:3] else 40))
        if self.dice.random() < 0.25 and kind != "reindex":
            point = self.dice.choice(OF_A_WRITE if kind in WRITES[:3] else OF_A_REBUILD)
            reads = tuple(self.read() for _ in range(self.dice.randint(1, 2)))
            return Step(step.kind, step.what, ((point, reads),))
        return step

    def write(self, kind: str) -> Step:
        if kind == "add":
            return Step(kind, {"chunks": self.chunks(self.dice.randint(1, 5))})
        if kind == "delete":
            return Step(kind, {"ids": tuple(self.dice.sample(IDS, self.dice.randint(1, 4)))})
        if kind == "delete where":
            return Step(kind, {"user": self.dice.choice(TENANTS)})
        return Step(kind)

    def step_search(self) -> Step:
        how = self.dice.choices(
            ("search", "asearch", "context", "acontext", "many", "gather", "words"), (12, 8, 6, 2, 1, 1, 4)
        )[0]
        what: dict[str, Any] = {
            "how": how,
            "query": self.query(),
            "user": self.dice.choice((None, None, *TENANTS)),
            "deep": self.dice.choice(("never", "never", "always", "evidence")),
            "limit": self.dice.choice((1, 3, 10)),
            "reader": self.dice.random() < 0.3,
        }
        if self.dice.random() < 0.15:
            what["hours"] = self.dice.randint(1, 48)
        if self.dice.random() < 0.4 or how in ("many", "gather", "words"):
            return Step("search", what)
        # In other searches the LLM is called in a thread beside the search, so the order of the two is not fixed.
        thinks_alone = what["deep"] == "evidence" and how in ("search", "context")
        points = [point for point in IN_A_SEARCH if point != "LLM" or thinks_alone]
        chosen = self.dice.sample(points, self.dice.randint(1, 2))
        return Step("search", what, tuple((point, self.in_a_search()) for point in chosen))

    def in_a_search(self) -> tuple[Step, ...]:
        steps = []
        for _ in range(self.dice.randint(1, 2)):
            kind = self.dice.choices((*WRITES[:-1], "read"), (10, 3, 1, 1, 1, 1, 1))[0]
            steps.append(self.read() if kind == "read" else self.write(kind))
        return tuple(steps)

    def read(self) -> Step:
        kind = self.dice.choices(("search", "status", "get"), (5, 1, 1))[0]
        if kind != "search":
            return Step(kind)
        step = self.step_search()
        return Step("search", {**step.what, "how": self.dice.choice(("search", "context", "words"))})

    def step_reopen(self) -> Step:
        fault = self.fault(40) if self.dice.random() < FAULTY_SHARE else None
        return Step("reopen", {"close": self.dice.random() < 0.8}, fault=fault)

    def step_open_reader(self) -> Step:
        return Step("open reader")

    def step_close_reader(self) -> Step:
        return Step("close reader")

    def step_backup(self) -> Step:
        self.backups += 1
        how = self.dice.choice(("closed folder", "sqlite backup", "folder while nobody writes"))
        return Step("backup", {"name": f"b{self.backups}", "how": how})

    def step_restore(self) -> Step:
        name = f"b{self.dice.randint(1, max(1, self.backups))}"
        how = self.dice.choice(("in place of the folder", "over the files", "umi.db alone", "umi.db and umi.mark"))
        return Step("restore", {"name": name, "how": how})

    def step_swap(self) -> Step:
        """Replace this store's ledger or index by another store's."""
        what = self.dice.choice(("umi.db", "lexical"))
        return Step("swap", {"what": what, "chunks": self.chunks(self.dice.randint(1, 8)), "same length": True})

    def step_damage(self) -> Step:
        what = self.dice.choice(("a row", "a metadata", "lexical", "umi.mark"))
        return Step("damage", {"what": what, "seed": self.dice.randrange(1_000)})

    def step_crash(self) -> Step:
        return Step("crash", fault=Fault("crash", 1, self.dice.randrange(1_000)))

    def step_wait(self) -> Step:
        return Step("wait", {"hours": self.dice.randint(1, 72)})

    def step_verify(self) -> Step:
        return Step("verify")

    def fault(self, most: int) -> Fault:
        kind = self.dice.choices(KINDS, (2, 2, 1, 4))[0]
        return Fault(kind, self.dice.randint(1, most), self.dice.randrange(1_000))

    def query(self) -> str:
        return " ".join(self.dice.sample(WORDS, self.dice.randint(1, 3)))

    def chunks(self, count: int) -> tuple[Chunk, ...]:
        return tuple(self.chunk(id) for id in self.dice.sample(IDS, count))

    def chunk(self, id: str) -> Chunk:
        """A new version of a chunk, with a word that no other version has; sometimes an old version once more."""
        older = [chunk for chunk in self.made if chunk.id == id]
        if older and self.dice.random() < 0.1:
            return self.dice.choice(older)
        self.versions += 1
        when = self.dice.choice((None, START - timedelta(hours=self.dice.randint(1, 72))))
        chunk = Chunk(
            id,
            " ".join((*self.dice.choices(WORDS, k=self.dice.randint(1, 5)), f"v{self.versions}v")),
            metadata={"user": self.dice.choice(TENANTS), "turn": self.versions},
            source=self.dice.choice((None, "s", "t")),
            position=self.dice.choice((None, 1, 2, 3, 4)),
            event_time=when,
        )
        self.made.append(chunk)
        return chunk
