"""Runs a schedule on a store on a simulated disk, and checks the laws after every step.

The laws:

1. A write that was acknowledged is stored completely, whatever failed meanwhile; any other write is stored completely
   or not at all.
2. Everything that a search shows existed, with that text and metadata, at one moment of the search, and passed its
   filter.
3. A search during which nothing was written answers as a store that was written in one batch: order, scores, context.
4. `verify()` is true for a sound store, and false for one whose ledger was changed by another program.
5. Opening, rebuilding, repairing and restoring embed nothing. A fault of the disk gives a typed error.
6. A search waits for no write, however long the write takes.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import copies
from faulty_disk import Disk
from model import DIMENSIONS, Content, LawBroken, WrittenAtOnce, difference
from schedule import CONFIGS, Schedule, Step
from searching import Answer, Interrupted, Llm, Points, ask, expected, since

from umi_common import DualRetriever, HybridStore, UmiConfig
from umi_common.errors import LedgerDamaged, UmiError
from umi_common.sim import CountingEmbedder, HashEmbedder, VirtualClock
from umi_common.stores.embedded import row_data
from umi_common.stores.failpoints import armed

PATIENCE_SECONDS = 10.0
"""Longest time that a search may take while a write is held: two hundred times what it needs, for busy machines."""
LLM_SECONDS = 120.0
"""Time limit of the LLM: longer than any steps take that run during its call."""
EMBEDDING = ("add", "swap", "reindex")
"""Steps in which texts are embedded."""


def embeds(step: Step) -> bool:
    """Whether texts are embedded in the step, or in a step that runs during it."""
    return step.kind in EMBEDDING or any(embeds(each) for _, inner in step.during for each in inner)


class World:
    """One store, on which a schedule is run.

    Args:
        home: An empty folder.
        schedule: The steps.
    """

    def __init__(self, home: Path, schedule: Schedule) -> None:
        self.home, self.schedule = home, schedule
        self.clock = VirtualClock()
        self.config = UmiConfig().replaced(rewrite={"timeout_seconds": LLM_SECONDS}, **CONFIGS[schedule.config])
        self.embedder = CountingEmbedder(HashEmbedder(DIMENSIONS))
        self.fresh = WrittenAtOnce(self.config, Llm(), self.clock)
        self.moments: list[Content] = [{}]
        self.pending: Content | None = None
        """The content after the write that is running; None: no write is."""
        self.held_at: int | str = ""
        """The failpoint at which a write is held now."""
        self.doubtful: Content | None = None
        """The content that a write which failed would have made: after a crash the store may hold it."""
        self.backups: dict[str, Content] = {}
        self.store: HybridStore
        self.umi: DualRetriever
        self.readers: list[tuple[HybridStore, DualRetriever]] = []
        self.roots = 0

    # Life

    def run(self) -> None:
        """Run the schedule.

        Raises:
            LawBroken: If a law is broken.
        """
        saved, row_data.SAVE_EVERY = row_data.SAVE_EVERY, self.schedule.save_every
        logging.disable(logging.CRITICAL)
        (self.home / "backups").mkdir()
        self.disk = Disk(self.next_root())
        self.disk.root.mkdir()
        self.disk.__enter__()
        try:
            self.open()
            for step in self.schedule.steps:
                self.do(step)
            self.sound()
        finally:
            row_data.SAVE_EVERY = saved
            self.abandon()
            self.disk.__exit__()
            self.fresh.close()
            logging.disable(logging.NOTSET)

    def next_root(self) -> Path:
        self.roots += 1
        return self.home / f"disk{self.roots}"

    @property
    def path(self) -> Path:
        """The store's folder."""
        return self.disk.root / "s"

    @property
    def content(self) -> Content:
        """The content after all acknowledged writes."""
        return self.moments[-1]

    def open(self) -> None:
        """Open for writing."""
        self.store = HybridStore.open(self.path, embedder=self.embedder, config=self.config)
        self.umi = self.retriever(self.store)

    def retriever(self, store: Any, rewriter: Llm | None = None) -> DualRetriever:
        return DualRetriever(store, rewriter=rewriter or Llm(), config=self.config, clock=self.clock)

    def close(self) -> None:
        """Close the store and its readers, as a user does."""
        while self.readers:
            reader, umi = self.readers.pop()
            umi.close()
            reader.close()
        self.umi.close()
        self.store.close()

    def abandon(self) -> None:
        """Close the objects of a store that a crash has ended. Nothing reads the files that this writes."""
        with self.disk.unwatched(), suppress(Exception):
            self.close()

    def move_to(self, image: Path) -> None:
        """Continue with the disk's content after a crash."""
        self.abandon()
        self.disk.__exit__()
        shutil.rmtree(self.disk.root)
        self.disk = Disk(image)
        self.disk.__enter__()

    # Steps

    def do(self, step: Step) -> None:
        """Run one step, and check the laws that hold after each step."""
        embedded = self.embedder.document_calls
        act: Callable[[Step], None] = getattr(self, "do_" + step.kind.replace(" ", "_"))
        act(step)
        if self.embedder.document_calls != embedded and not embeds(step):
            raise LawBroken(f"{step.kind} embedded {self.embedder.texts[-3:]}")
        self.holds()

    def holds(self) -> None:
        """Check that the writer and the readers hold what was acknowledged."""
        for who, store in (("the writer", self.store), *(("a reader", reader) for reader, _ in self.readers)):
            try:
                ids = store.ids()
                wrong = difference(self.content, ids, store.get(ids))
            except UmiError as error:
                raise LawBroken(f"{who} cannot read a sound store: {type(error).__name__}: {error}") from error
            if wrong or len(store) != len(self.content):
                raise LawBroken(f"{who} holds {len(store)} chunks, expected {len(self.content)}: {wrong}")

    def sound(self) -> None:
        """Check that `verify()` finds the store sound."""
        found = self.store.verify()
        if not found or found.checked != len(self.content):
            raise LawBroken(f"verify() of a sound store of {len(self.content)} chunks: {found}")

    def opened(self, allowed: Sequence[Content], why: str) -> None:
        """Open the store, and check that it holds one of these contents."""
        try:
            self.open()
        except UmiError as error:
            raise LawBroken(f"{why}, the store does not open: {type(error).__name__}: {error}") from error
        self.found(allowed, why)

    def found(self, allowed: Sequence[Content], why: str) -> None:
        """Check that the store, just opened, is sound and holds one of these, which is the content from now on."""
        try:
            ids = self.store.ids()
            chunks = self.store.get(ids)
        except UmiError as error:
            raise LawBroken(f"{why}, the store cannot be read: {type(error).__name__}: {error}") from error
        wrong = [difference(content, ids, chunks) for content in allowed]
        if all(wrong):
            raise LawBroken(f"{why}, it holds what it must not: {' | '.join(wrong)}")
        self.moments.append(allowed[wrong.index("")])
        self.pending = self.doubtful = None
        self.sound()

    def write(self, step: Step, after: Content, act: Callable[[], Any]) -> None:
        """Run `act`, which changes the content to `after` or leaves it, with the step's fault or while others read."""
        failed: BaseException | None = None
        self.pending = after
        with self.disk.failing(step.fault, self.next_root()), self.held(step):
            try:
                act()
            except UmiError as error:
                failed = error
            except OSError as error:
                raise LawBroken(f"{step.kind}: an untyped error, {type(error).__name__}: {error}") from error
            struck = self.disk.struck
        before, self.pending = self.content, None
        if self.disk.crashed is not None:
            doubtful = [] if self.doubtful is None or not struck else [self.doubtful]
            self.move_to(self.disk.crashed)
            self.opened([after, before, *doubtful] if struck else [after], "after a crash")
        elif failed is None:
            self.moments.append(after)
            self.doubtful = self.doubtful if after == before else None
        elif step.fault is None:
            raise LawBroken(f"{step.kind} failed without a fault: {type(failed).__name__}: {failed}") from failed
        else:
            self.after_failure(step, before, after)

    def after_failure(self, step: Step, before: Content, after: Content) -> None:
        """Check that a write which failed is stored completely or not at all."""
        ids = self.store.ids()
        chunks = self.store.get(ids)
        if not difference(before, ids, chunks):
            self.doubtful = after
        elif not difference(after, ids, chunks):
            self.moments.append(after)
        else:
            raise LawBroken(f"{step.kind} failed half-way: {difference(before, ids, chunks)}")

    @contextmanager
    def held(self, step: Step) -> Iterator[None]:
        """When the block reaches one of the step's failpoints, its inner steps run in another thread."""
        broken: list[BaseException] = []
        threads: list[threading.Thread] = []

        def read(inner: Sequence[Step]) -> None:
            try:
                for each in inner:
                    getattr(self, "do_" + each.kind)(each)
            except BaseException as error:  # noqa: BLE001 handed to the thread that waits
                broken.append(error)

        def hold(point: int | str, inner: Sequence[Step]) -> None:
            if not threads:
                self.held_at = point
                threads.append(threading.Thread(target=read, args=(inner,)))
                threads[0].start()
                threads[0].join(PATIENCE_SECONDS)
                if threads[0].is_alive():
                    broken.append(LawBroken(f"a search waits for {step.kind}, which is held at {point}"))
                self.held_at = ""

        with ExitStack() as stack:
            for point, inner in step.during:
                stack.enter_context(armed(str(point), lambda p=point, i=inner: hold(p, i)))  # type: ignore[misc]
            yield
        for thread in threads:
            thread.join()
        if broken:
            raise broken[0]

    def do_add(self, step: Step) -> None:
        chunks = step.what["chunks"]
        after = {**self.content, **{chunk.id: chunk for chunk in chunks}}
        self.write(step, after, lambda: self.store.add(chunks))

    def do_delete(self, step: Step) -> None:
        after = {id: chunk for id, chunk in self.content.items() if id not in step.what["ids"]}
        self.write(step, after, lambda: self.store.delete(step.what["ids"]))

    def do_delete_where(self, step: Step) -> None:
        user = step.what["user"]
        after = {id: chunk for id, chunk in self.content.items() if chunk.metadata["user"] != user}
        self.write(step, after, lambda: self.store.delete(where={"user": user}))

    def do_rebuild(self, step: Step) -> None:
        self.write(step, self.content, self.store.rebuild)

    def do_compact(self, step: Step) -> None:
        self.write(step, self.content, self.store.compact)

    def do_reindex(self, step: Step) -> None:
        self.close()

        def act() -> None:
            try:
                HybridStore.reindex(self.path, embedder=HashEmbedder(DIMENSIONS))
            finally:
                if self.disk.crashed is None:
                    with self.disk.unwatched():
                        self.open()

        self.write(step, self.content, act)

    def do_repair(self, step: Step) -> None:
        self.write(step, self.content, self.store.repair)

    def do_verify(self, _step: Step) -> None:
        self.sound()

    def do_wait(self, step: Step) -> None:
        self.clock.advance(3600.0 * step.what["hours"])

    def do_status(self, _step: Step) -> None:
        allowed = {len(content) for content in (self.content, self.pending) if content is not None}
        if self.store.status().chunks not in allowed:
            raise LawBroken(f"status() counts {self.store.status().chunks} chunks, expected {sorted(allowed)}")

    def do_get(self, _step: Step) -> None:
        ids = sorted({*self.content, *(self.pending or ())})
        found = {chunk.id: chunk for chunk in self.store.get(ids) if chunk is not None}
        for id, chunk in found.items():
            if chunk not in (self.content.get(id), (self.pending or {}).get(id)):
                raise LawBroken(f"get() gives {chunk}, which was never written")

    def do_search(self, step: Step) -> None:
        reader = self.readers[0] if step.what["reader"] and self.readers else (self.store, self.umi)
        step = replace(step, what={**step.what, "now": self.clock.now()})
        first, begin = len(self.moments) - 1, since(step.what)
        answer, quiet = self.asked(step, *reader)
        moments = list(self.moments[first:]) + ([] if self.pending is None else [self.pending])
        if answer.error and not quiet:
            raise LawBroken(f"a search failed beside writes: {answer.error}")
        answer.check(moments, step.what["user"], begin)
        # At this failpoint a replaced row has left the ledger, and its successor is not yet in the index, so that the
        # chunk may be missing from the hits.
        if quiet and self.held_at != "ledger.committed":
            every = [ask(*self.fresh.of(content), step.what, self.clock) for content in moments]
            expected(answer, every, step.what)

    def asked(self, step: Step, store: HybridStore, umi: DualRetriever) -> tuple[Answer, bool]:
        """The answer, and whether nothing was written during the search."""
        if not step.during:
            return ask(store, umi, step.what, self.clock), True
        inner = dict(step.during)
        ran: list[Step] = []

        def before(point: int | str) -> None:
            for each in inner.pop(point, ()):
                ran.append(each)
                getattr(self, "do_" + each.kind.replace(" ", "_"))(each)

        points = Points(before)
        held = Interrupted(store, points)
        with self.retriever(held, Llm(points.thinking)) as interrupted:
            answer = ask(held, interrupted, step.what, self.clock, points.on_stage)
        if points.failure is not None:
            raise points.failure
        return answer, all(each.kind in ("search", "status", "get") for each in ran)

    def do_open_reader(self, _step: Step) -> None:
        if len(self.readers) < 2:
            reader = HybridStore.open(self.path, embedder=self.embedder, config=self.config, read_only=True)
            self.readers.append((reader, self.retriever(reader)))

    def do_close_reader(self, _step: Step) -> None:
        if self.readers:
            reader, umi = self.readers.pop()
            umi.close()
            reader.close()

    def do_reopen(self, step: Step) -> None:
        struck = False
        with self.disk.failing(step.fault, self.next_root()):
            if step.what["close"]:
                with suppress(UmiError if step.fault else ()):
                    self.close()
                    self.open()
                struck = self.disk.struck
        if self.disk.crashed is not None:
            self.move_to(self.disk.crashed)
        elif not step.what["close"]:
            image = self.next_root()
            shutil.copytree(self.disk.root, image, ignore=shutil.ignore_patterns("*-shm"))
            self.move_to(image)
        elif struck:
            self.abandon()
        else:
            return
        doubtful = [] if self.doubtful is None else [self.doubtful]
        self.opened([self.content, *doubtful], "after a reopening that failed")

    def do_crash(self, step: Step) -> None:
        assert step.fault is not None
        with self.disk.failing(None, self.next_root()):
            self.disk.crash(step.fault.seed)
            image = self.disk.crashed
        assert image is not None
        self.move_to(image)
        doubtful = [] if self.doubtful is None else [self.doubtful]
        self.opened([self.content, *doubtful], "after a crash between two steps")

    # Copies

    def do_backup(self, step: Step) -> None:
        how, target = step.what["how"], self.home / "backups" / step.what["name"]
        if how == "closed folder":
            self.close()
            shutil.copytree(self.path, target)
            self.opened([self.content], "after a copy was made")
        elif how == "sqlite backup":
            copies.back_up_ledger(self.path, target)
        else:
            shutil.copytree(self.path, target)
        self.backups[step.what["name"]] = self.content

    def do_restore(self, step: Step) -> None:
        name = step.what["name"]
        if name not in self.backups:
            return
        self.close()
        with self.disk.unwatched():
            copies.put_back(self.home / "backups" / name, self.path, step.what["how"])
        self.reopened_after_user(self.backups[name], f"with a copy put back {step.what['how']}")

    def do_swap(self, step: Step) -> None:
        self.close()
        with self.disk.unwatched():
            foreign = copies.make_twin(self.path, self.home / f"twin{self.next_root().name}", self.embedder)
            if step.what["what"] == "umi.db":
                copies.put_back(foreign.path, self.path, "umi.db alone")
            else:
                shutil.rmtree(self.path / "lexical", ignore_errors=True)
                if (foreign.path / "lexical").exists():
                    shutil.copytree(foreign.path / "lexical", self.path / "lexical")
        content = foreign.content if step.what["what"] == "umi.db" else self.content
        self.reopened_after_user(content, f"with another store's {step.what['what']}")

    def reopened_after_user(self, content: Content, why: str) -> None:
        """Open after the user has moved files. If the error says to delete umi.mark, do so and open again."""
        self.disk.settle()
        try:
            self.open()
        except LedgerDamaged as error:
            mark = self.path / "umi.mark"
            if f"delete {mark}" not in str(error):
                raise LawBroken(f"{why}, the store does not open: {error}") from error
            mark.unlink()
            self.disk.settle()
            self.opened([content], why)
        self.found([content], why)
        for query in ("red", "boat night"):
            what = {
                "how": "search",
                "query": query,
                "user": None,
                "deep": "never",
                "limit": 10,
                "now": self.clock.now(),
            }
            answer = ask(self.store, self.umi, what, self.clock)
            expected(answer, [ask(*self.fresh.of(content), what, self.clock)], {"query": query, "why": why})

    def do_damage(self, step: Step) -> None:
        what, seed = step.what["what"], step.what["seed"]
        if what in ("lexical", "umi.mark"):
            self.close()
            with self.disk.unwatched():
                copies.scribble(self.path, what, seed)
            self.reopened_after_user(self.content, f"with {what} damaged")
        elif self.content:
            id = sorted(self.content)[seed % len(self.content)]
            self.damaged_row(id, "text" if what == "a row" else "metadata")

    def damaged_row(self, id: str, column: str) -> None:
        """Check that `verify` and `repair` report a row that another program changed. The change is undone."""
        with sqlite3.connect(self.path / "umi.db") as connection:
            (true,) = connection.execute(f"SELECT {column} FROM chunks WHERE id = ?", (id,)).fetchone()
            false = true.replace("v", "w") if column == "text" else true.replace("ann", "eve").replace("bob", "eve")
            change = f"UPDATE chunks SET {column} = ? WHERE id = ?"
            connection.execute(change, (false, id))
        try:
            if self.store.verify():
                raise LawBroken(f"verify() says nothing of a changed {column} of {id}")
            with suppress(LedgerDamaged):
                self.store.repair()
                raise LawBroken(f"repair() says nothing of a changed {column} of {id}")
        finally:
            with connection:
                connection.execute(change, (true, id))
            connection.close()
        self.sound()
