"""Ctrl+C during a write or during close(): the write is there or not, and the store can be used again."""

from __future__ import annotations

import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from umi_common import DualRetriever
from umi_common.errors import StoreClosed, StoreLocked
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.stores.failpoints import armed
from umi_common.stores.lexical.index import LexicalIndex
from umi_common.types import Chunk

MOMENTS = 120
"""Moments of one call at which it is interrupted, one run each."""
signals = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer that sends a signal")


def opened(path: Path) -> HybridStore:
    return HybridStore.open(path, embedder=HashEmbedder(64))


def chunks(count: int, turn: int) -> list[Chunk]:
    return [Chunk(f"c{i}", f"boat {i} of turn {turn}") for i in range(count)]


def press_ctrl_c(*_: object) -> None:
    raise KeyboardInterrupt


def interrupted(call: Callable[[], object], seconds: float) -> bool:
    """Make the call and interrupt it after some seconds. Returns whether it was stopped."""
    before = signal.signal(signal.SIGALRM, press_ctrl_c)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        call()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        return True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return False


@signals
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Ctrl+C inside a weakref's callback
def test_ctrl_c_at_any_moment_of_a_write_leaves_it_whole_or_unmade(tmp_path):
    with opened(tmp_path / "s") as store:
        begun = time.perf_counter()
        store.add(chunks(300, 0))
        usual, stopped, turn = time.perf_counter() - begun, 0, 0
        for moment in range(MOMENTS):
            last, turn = turn, turn + 1
            stopped += interrupted(lambda turn=turn: store.add(chunks(300, turn)), 1.2 * usual * (moment + 1) / MOMENTS)
            found = {chunk.text.split()[-1] for chunk in store.scan()}
            assert found in ({str(last)}, {str(turn)}), moment
            turn = int(found.pop())
            store.add([Chunk("c7", f"a submarine of turn {turn}")])
            assert len(store) == 300
        assert store.verify(full=True)
    assert stopped > MOMENTS / 10


def test_ctrl_c_inside_a_lock_of_a_store_that_only_reads_stops_no_later_read(tmp_path):
    """Ctrl+C at each line, call and return of Python's module `threading` in turn; then another thread reads."""
    left = 0

    def interrupt(frame, event, argument):
        nonlocal left
        left -= frame.f_code.co_filename == threading.__file__
        if left == 0:
            sys.settrace(None)
            raise KeyboardInterrupt
        return interrupt

    with opened(tmp_path / "s") as store:
        store.add(chunks(3, 0))
    with HybridStore.open(tmp_path / "s", embedder=HashEmbedder(64), read_only=True) as reader:
        for instant in range(1, 300):
            left = instant
            try:
                sys.settrace(interrupt)
                reader.scan()
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(None)
            found: list[Chunk] = []
            thread = threading.Thread(target=lambda found=found: found.extend(reader.scan()), daemon=True)
            thread.start()
            thread.join(60)
            assert len(found) == 3, instant
            if left > 0:
                return
    raise AssertionError("more instants than were tried")


def test_ctrl_c_as_a_read_of_a_store_in_memory_begins_stops_no_later_call():
    def interrupt(frame, event, _):
        if event == "c_return" and frame.f_code.co_name == "snapshot":
            raise KeyboardInterrupt

    with HybridStore.open(embedder=HashEmbedder(64)) as store:
        store.add(chunks(3, 0))
        sys.setprofile(interrupt)
        try:
            with pytest.raises(KeyboardInterrupt):
                store.scan()
        finally:
            sys.setprofile(None)
        store.add(chunks(5, 1))
        assert store.scan() == chunks(5, 1)


@pytest.fixture
def on_signal() -> Iterator[Callable[[Callable[[], object]], Callable[[], None]]]:
    """Sets the handler of SIGUSR1, and returns a function that sends the signal."""
    before = signal.getsignal(signal.SIGUSR1)

    def handled_by(action: Callable[[], object]) -> Callable[[], None]:
        signal.signal(signal.SIGUSR1, lambda *_: action())
        return lambda: signal.raise_signal(signal.SIGUSR1)

    yield handled_by
    signal.signal(signal.SIGUSR1, before)


WRITES_OF_A_HANDLER: dict[str, Callable[[HybridStore], object]] = {
    "add": lambda store: store.add([Chunk("pending", "a message that is stored before the process ends")]),
    "delete": lambda store: store.delete(["c1"]),
    "compact": HybridStore.compact,
    "rebuild": HybridStore.rebuild,
}


@signals
@pytest.mark.parametrize("point", ["ledger.insert", "ledger.commit", "ledger.committed"])
@pytest.mark.parametrize("handler", WRITES_OF_A_HANDLER)
def test_a_signal_handler_that_writes_in_the_middle_of_a_write_is_refused_and_breaks_nothing(
    tmp_path, on_signal, handler, point
):
    told: list[str] = []

    def write() -> None:
        with pytest.raises(StoreLocked) as caught:
            WRITES_OF_A_HANDLER[handler](store)
        told.append(str(caught.value))

    with opened(tmp_path / "s") as store:
        store.add(chunks(20, 0))
        with armed(point, on_signal(write)):
            store.add([Chunk("c1", "a submarine"), Chunk("new", "a raft")])
        assert "let the handler set a flag" in told[0]
        assert store.get(["c1", "new"]) == [Chunk("c1", "a submarine"), Chunk("new", "a raft")]
        assert store.verify(full=True)
        WRITES_OF_A_HANDLER[handler](store)
    with opened(tmp_path / "s") as store:
        assert store.verify(full=True)
        assert len(store) == {"add": 22, "delete": 20}.get(handler, 21)


READS_OF_A_HANDLER: dict[str, Callable[[HybridStore], object]] = {
    "get": lambda store: store.get(["c1"]),
    "search": lambda store: DualRetriever(store).search("boat 1 of turn 0", limit=2),
    "search with a filter": lambda store: DualRetriever(store).search("boat 1", where={"deck": 1}),
    "scan": HybridStore.scan,
    "verify": HybridStore.verify,
    "full verify": lambda store: store.verify(full=True),
    "status": HybridStore.status,
}


@signals
@pytest.mark.parametrize("point", ["ledger.insert", "ledger.commit", "ledger.committed"])
@pytest.mark.parametrize("handler", READS_OF_A_HANDLER)
@pytest.mark.parametrize("in_memory", [False, True], ids=["directory", "memory"])
def test_a_signal_handler_that_reads_in_the_middle_of_a_write_breaks_nothing_and_is_told_of_no_damage(
    tmp_path, on_signal, handler, point, in_memory
):
    read, refused = READS_OF_A_HANDLER[handler], []

    def answer() -> None:
        try:
            problems = getattr(read(store), "problems", ())
        except StoreLocked as error:
            refused.append(str(error))
        else:
            assert not problems

    with HybridStore.open(None if in_memory else tmp_path / "s", embedder=HashEmbedder(64)) as store:
        store.add(chunks(20, 0))
        with armed(point, on_signal(answer)):
            store.add([Chunk("c1", "a submarine"), Chunk("new", "a raft")])
        assert all("repeat the call after the other one" in message for message in refused)
        assert in_memory or point == "ledger.committed" or not refused  # a file is read as of the last commit
        assert store.get(["c1", "new"]) == [Chunk("c1", "a submarine"), Chunk("new", "a raft")]
        assert len(store) == 21
        assert store.verify(full=True)
        read(store)


@signals
def test_a_signal_handler_that_writes_in_the_middle_of_a_read_of_a_store_in_memory_changes_nothing(on_signal):
    told: list[str] = []

    def write() -> None:
        with pytest.raises(StoreLocked) as caught:
            store.delete(["c1"])
        told.append(str(caught.value))

    with HybridStore.open(embedder=HashEmbedder(64)) as store:
        store.add(chunks(3, 0))
        interrupt = on_signal(write)
        with store._core.ledger.snapshot() as connection:
            interrupt()
            assert store._core.ledger.rows(connection) == 3
        assert "repeat the call after the other one" in told[0]
        store.delete(["c1"])
        assert len(store) == 2
        assert store.verify(full=True)


@signals
@pytest.mark.parametrize("change", ["add", "delete"])
def test_a_signal_handler_that_closes_the_store_while_its_indexes_change_saves_no_half_of_a_write(
    tmp_path, on_signal, monkeypatch, caplog, change
):
    store, update = opened(tmp_path / "s"), LexicalIndex.update
    store.add(chunks(20, 0))
    close = on_signal(store.close)
    monkeypatch.setattr(LexicalIndex, "update", lambda *args, **options: (update(*args, **options), close()))
    with suppress(StoreClosed):
        store.add([Chunk("new", "a raft")]) if change == "add" else store.delete(["c1"])
    monkeypatch.undo()
    assert not caplog.text
    with opened(tmp_path / "s") as store:
        scores = store.search_lexical("boat of turn", k=5)
        assert len(store) == (21 if change == "add" else 19)
        assert store.verify(full=True)
        store.rebuild()
        assert store.search_lexical("boat of turn", k=5) == scores


def test_an_interrupted_close_releases_the_directory(tmp_path, monkeypatch):
    with opened(tmp_path / "s") as store:
        store.add(chunks(3, 0))
        monkeypatch.setattr(store._core.ledger, "close", press_ctrl_c)
        with pytest.raises(KeyboardInterrupt):
            store.close()
        with opened(tmp_path / "s") as again:
            assert again.ids() == ["c0", "c1", "c2"]


def test_a_store_opens_after_an_interrupted_write_compact_and_a_kill(tmp_path):
    """The last mark of an acknowledged write names a commit that compact() has dropped from the list."""
    with opened(tmp_path / "s") as store:
        store.add(chunks(3, 0))
        with armed("ledger.committed", press_ctrl_c), pytest.raises(KeyboardInterrupt):
            store.add([Chunk("new", "purple submarine")])
        store.compact()
        shutil.copytree(tmp_path / "s", tmp_path / "killed")
    with opened(tmp_path / "killed") as store:
        assert store.ids() == ["c0", "c1", "c2", "new"]
        assert store.verify()
