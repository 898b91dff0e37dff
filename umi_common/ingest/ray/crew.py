"""Workers on Ray that read, chunk, embed and write; those that die are replaced, their work is repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from umi_common.errors import ConfigError
from umi_common.files.parts import FilePart
from umi_common.files.readers.pdf import PdfProcess
from umi_common.files.report import Problem
from umi_common.files.work import PartOutcome, ingest_parts
from umi_common.ingest.ray.remote_store import Lent, result
from umi_common.protocols import Embedder

BATCHES_AHEAD = 2
"""In hand and waiting, for each worker; what a killed driver leaves to be repeated."""
TRIES = 2
"""How often a part that was in a dead worker's hands is tried by itself before it is left out."""
OpenEmbedder = Callable[[], Embedder]
Out = dict[Any, tuple[Any, Sequence[FilePart]]]
"""Who works on what, by the reference of the answer."""


class _Worker:
    """The actor. It opens its store and its embedder when it is called, so that what is wrong has somewhere to go."""

    def __init__(
        self, open_store: Callable[[], Any], open_embedder: Callable[[], Embedder], store: Lent | None
    ) -> None:
        self._open_store, self._open_embedder = open_store, open_embedder
        self._store: Any = store
        self._embedder: Embedder | None = None
        self._pdf = PdfProcess()

    def ingest(self, parts: Sequence[FilePart]) -> list[PartOutcome]:
        if self._store is None:
            self._store = self._open_store()
        if self._embedder is None:
            self._embedder = self._open_embedder()
        return ingest_parts(self._store, self._embedder, parts, self._pdf)


class Crew:
    """So many workers, busy as long as there is something to do."""

    def __init__(self, hire: Callable[[], Any], count: int) -> None:
        self._hire = hire
        self._hands = [hire() for _ in range(count)]
        self._idle: list[Any] = []
        self._out: Out = {}
        self._suspects: list[FilePart] = []
        """Parts that a worker had in hand when it died."""

    def check(self) -> None:
        """Raises what is wrong with the stores and embedders that the workers open.

        Raises:
            ConfigError: If a worker does not start at all.
        """
        from ray.exceptions import RayActorError

        for ready in [hand.ingest.remote([]) for hand in self._hands]:
            try:
                result(ready)
            except RayActorError as error:
                raise ConfigError(f"a worker cannot start; is all that it needs importable there? {error}") from error

    def outcomes(self, batches: Iterable[Sequence[FilePart]]) -> Iterator[list[PartOutcome]]:
        """Of the batches as they come, of suspects at last."""
        yield from self._round(batches, BATCHES_AHEAD)
        for _ in range(TRIES):
            suspects, self._suspects = self._suspects, []
            yield from self._round(([part] for part in suspects), 1)  # alone in a worker: the blame is exact
        yield [PartOutcome(part, problem=_deadly(part)) for part in self._suspects]

    def dismiss(self) -> None:
        """End all workers now."""
        import ray

        for hand in self._hands:
            ray.kill(hand)

    def _round(self, batches: Iterable[Sequence[FilePart]], ahead: int) -> Iterator[list[PartOutcome]]:
        self._idle = self._hands * ahead
        for batch in batches:
            while not self._idle:
                yield from self._next(ahead)
            hand = self._idle.pop(0)
            self._out[hand.ingest.remote(batch)] = (hand, batch)
        while self._out:
            yield from self._next(ahead)

    def _next(self, ahead: int) -> Iterator[list[PartOutcome]]:
        """The next answer; nothing if its worker died instead."""
        import ray

        (ready, *_), _ = ray.wait(list(self._out), num_returns=1)
        hand, batch = self._out.pop(ready)
        try:
            outcomes: list[PartOutcome] = result(ready)
        except ray.exceptions.RayActorError:
            self._suspects += batch
            self._replace(hand, ahead)
            return
        self._idle.append(hand)
        yield outcomes

    def _replace(self, hand: Any, ahead: int) -> None:
        if hand in self._hands:  # else its other batch has told so before
            self._hands.remove(hand)
            self._hands.append(self._hire())
            self._idle = [each for each in self._idle if each is not hand] + self._hands[-1:] * ahead


@contextmanager
def hired(count: int, open_store: Callable[[], Any], open_embedder: OpenEmbedder, store: Lent | None) -> Iterator[Crew]:
    """A crew that does nothing any more once the block is left. Ray is connected.

    Args:
        store: None: each opens its own.
    """
    import ray

    kind: Any = ray.remote(num_cpus=1)(_Worker)
    crew = Crew(partial(kind.remote, open_store, open_embedder, store), count)
    try:
        crew.check()
        yield crew
    finally:
        crew.dismiss()


def _deadly(part: FilePart) -> Problem:
    said = f"{part.path} was in hand each of {TRIES + 1} times that a worker died; look at its size and at Ray's logs"
    return Problem(part.source, "WorkerDied", said)
