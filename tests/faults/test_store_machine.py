"""Any history of writes, reopenings and damage, against a plain dictionary."""

from __future__ import annotations

import os
import shutil
import tempfile
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from umi_common.filters import parse_filter
from umi_common.protocols import Probe
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded import row_data
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk

EXAMPLES = int(os.environ.get("UMI_TEST_EXAMPLES", "100"))
SEEN = (
    "lexical",
    "dense",
    "lexical_rank",
    "dense_rank",
    "lexical_bound",
    "source_lexical",
    "position",
    "source",
    "length",
)
pytestmark = pytest.mark.slow
NOW = datetime(2024, 1, 1, tzinfo=timezone.utc)
WORDS = ["red", "boat", "night", "train", "日本", "blue"]
IDS = st.sampled_from([f"c{i}" for i in range(12)])
CHUNKS = st.builds(
    lambda id, words, user, source, position: Chunk(
        id, " ".join(words), metadata={"user": user}, source=source, position=position
    ),
    IDS,
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=5),
    st.sampled_from(["ann", "bob"]),
    st.sampled_from([None, "s", "t"]),
    st.sampled_from([None, 1, 2, 3]),
)


class StoreMachine(RuleBasedStateMachine):
    @initialize(on_disk=st.booleans())
    def begin(self, on_disk):
        self.home = Path(tempfile.mkdtemp())
        self.path = self.home / "s" if on_disk else None
        self.model: dict[str, Chunk] = {}
        self.store = HybridStore.open(self.path, embedder=HashEmbedder(16))

    @rule(chunks=st.lists(CHUNKS, max_size=6, unique_by=lambda chunk: chunk.id))
    def add(self, chunks):
        self.store.add(chunks)
        self.model.update({chunk.id: chunk for chunk in chunks})

    @rule(ids=st.lists(IDS, max_size=4))
    def delete(self, ids):
        assert self.store.delete(ids) == len(set(ids) & self.model.keys())
        for id in ids:
            self.model.pop(id, None)

    @rule(user=st.sampled_from(["ann", "bob", "cyd"]))
    def delete_where(self, user):
        gone = [id for id, chunk in self.model.items() if chunk.metadata["user"] == user]
        assert self.store.delete(where={"user": user}) == len(gone)
        for id in gone:
            del self.model[id]

    @precondition(lambda self: self.path is not None)
    @rule(damage=st.sampled_from(["none", "delete", "flip"]), read_only=st.booleans())
    def reopen(self, damage, read_only):
        self.store.close()
        if damage == "delete":
            shutil.rmtree(self.path / "lexical", ignore_errors=True)
        elif damage == "flip":
            for file in (self.path / "lexical").rglob("*"):
                if file.is_file():
                    data = bytearray(file.read_bytes())
                    data[len(data) // 2] ^= 1
                    file.write_bytes(data)
        if read_only:
            with HybridStore.open(self.path, embedder=HashEmbedder(16), read_only=True) as reader:
                assert reader.ids() == sorted(self.model)
        self.store = HybridStore.open(self.path, embedder=HashEmbedder(16))

    @rule()
    def rebuild(self):
        self.store.rebuild()

    @rule()
    def compact(self):
        self.store.compact()

    @rule(words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3), user=st.sampled_from([None, "ann", "bob"]))
    def search(self, words, user):
        where = None if user is None else parse_filter({"user": user})
        query = " ".join(words)
        pool = self.store.recall([Probe(query)], depth=10, now=NOW, where=where, around=1)
        visible = {id: c for id, c in self.model.items() if user is None or c.metadata["user"] == user}
        assert set(pool.ids) <= visible.keys()
        assert not pool.degraded
        by_words = {pool.ids[row] for row in np.flatnonzero(pool.lexical_rank[0])}
        matching = {id for id, chunk in visible.items() if set(words) & set(chunk.text.split())}
        assert by_words == matching if len(matching) <= 10 else len(by_words) == 10
        # The dense arm, worked out the slow way.
        embed = HashEmbedder(16).embed_documents
        cosines = {id: float(embed([chunk.text])[0] @ embed([query])[0]) for id, chunk in visible.items()}
        for row, id in enumerate(pool.ids):
            assert abs(pool.dense[0, row] - cosines[id]) < 1e-5
        if len(visible) <= 10 and embed([query]).any():
            assert set(pool.ids) >= {id for id in visible if embed([visible[id].text]).any()}
        self.same_as_new(pool, query, where)

    def same_as_new(self, pool, query, where):
        """A store written in one batch gives the same pool, to the bit."""
        with HybridStore.open(embedder=HashEmbedder(16)) as new:
            new.add([self.model[id] for id in sorted(self.model)])
            other = new.recall([Probe(query)], depth=10, now=NOW, where=where, around=1)
        assert pool.ids == other.ids
        for name in SEEN:
            np.testing.assert_array_equal(getattr(pool, name), getattr(other, name), err_msg=name)

    @invariant()
    def content(self):
        if hasattr(self, "store"):
            assert len(self.store) == len(self.model)
            ids = sorted(self.model)
            assert self.store.ids() == ids
            assert self.store.get(ids) == [self.model[id] for id in ids]

    def teardown(self):
        if hasattr(self, "store"):
            assert self.store.verify()
            self.store.close()
            shutil.rmtree(self.home)


def test_any_history(monkeypatch):
    monkeypatch.setattr(row_data, "SAVE_EVERY", 3)
    run_state_machine_as_test(
        StoreMachine,
        settings=settings(
            max_examples=EXAMPLES, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
