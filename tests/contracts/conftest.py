"""Every test of this folder runs once for each store in `stores.KINDS`."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from stores import KINDS, SERVERS, Kind

from umi_common.protocols import Embedder, Store
from umi_common.sim import HashEmbedder

DIM = 64


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`kind` is a parameter of every test that asks for a store."""
    if "kind" in metafunc.fixturenames:
        metafunc.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])


@pytest.fixture
def new_store(kind: Kind, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Store]]:
    """Makes empty stores, closed at the end."""
    reason = kind.exempt.get(request.node.originalname)
    if reason is not None:
        pytest.skip(f"{kind.name} is exempt: {reason}")
    with ExitStack() as stack:

        def make(embedder: Embedder | None = None) -> Store:
            folder = tmp_path / str(len(list(tmp_path.iterdir())))
            folder.mkdir()
            store = kind.make(HashEmbedder(DIM) if embedder is None else embedder, folder)
            stack.callback(store.close)
            return store

        yield make


@pytest.fixture
def store(new_store: Callable[..., Store]) -> Store:
    """An empty store."""
    return new_store()


@pytest.fixture(scope="session", autouse=True)
def servers() -> Iterator[None]:
    """Stops the Chroma server that a store of this session has started, and removes its folder."""
    yield
    for server in SERVERS:
        server.close()
        shutil.rmtree(server.folder, ignore_errors=True)
    SERVERS.clear()
