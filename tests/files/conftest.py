"""Files that several tests write."""

from __future__ import annotations

import pytest


@pytest.fixture()
def file(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write
