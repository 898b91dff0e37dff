"""Every test of this folder runs once for each store in `stores.KINDS`, one kind of a module after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from corpus import corpus
from stores import KINDS, Kind

from umi_common.protocols import Embedder, Store
from umi_common.sim import HashEmbedder

DIM = 64


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    """The kinds of store, one after another."""
    return request.param


@pytest.fixture(autouse=True)
def exempt(request: pytest.FixtureRequest) -> None:
    """Skips what a kind is exempt from."""
    if "kind" in request.fixturenames:
        kind: Kind = request.getfixturevalue("kind")
        reason = kind.exempt.get(request.node.originalname)
        if reason is not None:
            pytest.skip(f"{kind.name} is exempt: {reason}")


@contextmanager
def maker(kind: Kind, home: Path) -> Iterator[Callable[..., Store]]:
    """A function that makes empty stores; they are closed at the end."""
    with ExitStack() as stack:

        def make(embedder: Embedder | None = None) -> Store:
            folder = home / str(len(list(home.iterdir())))
            folder.mkdir()
            store = kind.make(HashEmbedder(DIM) if embedder is None else embedder, folder)
            stack.callback(store.close)
            return store

        yield make


@pytest.fixture
def new_store(kind: Kind, tmp_path: Path) -> Iterator[Callable[..., Store]]:
    """Makes empty stores, closed at the end."""
    with maker(kind, tmp_path) as make:
        yield make


@pytest.fixture(scope="module")
def filled(kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store of `corpus()`, for tests that only read."""
    with maker(kind, tmp_path_factory.mktemp("filled")) as make:
        store = make()
        store.add(corpus())
        yield store


@pytest.fixture
def store(new_store: Callable[..., Store]) -> Store:
    """An empty store."""
    return new_store()
