"""Where an open store lies: its directory and `umi.db`, told from others by device and inode."""

from __future__ import annotations

from pathlib import Path

from umi_common.errors import StoreMoved


class Location:
    """The directory and the file that a path named when the store was opened.

    A file that is open stays writable after it, or its directory, was deleted or renamed. What is written then is
    lost, or lies where nobody looks for it.

    Raises:
        StoreMoved: If there is no such file.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._directory = path, path.parent
        inodes = self._now()
        if inodes is None:
            raise StoreMoved(f"{path} is gone; check whether its directory was deleted or renamed")
        self._inodes = inodes

    @property
    def file(self) -> tuple[int, int]:
        """Device and inode of the file."""
        return self._inodes[2:]

    def unchanged(self) -> bool:
        """Whether the path still names this directory and this file."""
        return self._now() == self._inodes

    def _now(self) -> tuple[int, int, int, int] | None:
        """Device and inode of the directory, then of the file."""
        directory, file = inode_of(self._directory), inode_of(self._path)
        return None if directory is None or file is None else (*directory, *file)

    def check(self) -> None:
        """Refuse to go on where the path names nothing, or something else.

        Raises:
            StoreMoved: As described.
        """
        if not self.unchanged():
            raise StoreMoved(
                f"{self._path} or its directory was deleted, renamed or replaced while the store was open; nothing is "
                "acknowledged. Close this store, then open it under its present path"
            )


def inode_of(path: Path) -> tuple[int, int] | None:
    """Device and inode; None: there is no such file."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino
