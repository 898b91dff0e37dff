"""Watch the files of SQLite: every read, write, sync, truncation and deletion of the connections of this process.

SQLite accesses its files through a table of functions, its VFS. Here that table is copied, a few entries are replaced
by Python functions, and the copy is registered as the default. So all connections that are opened later are watched,
umi's included. It needs no compiler, but a SQLite library whose functions ctypes can find (`usable()`).
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, Structure, byref, c_char_p, c_int, c_int64, c_void_p, cast, sizeof
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from faulty_disk import Disk

OK, READ_FAILED, WRITE_FAILED, SYNC_FAILED, CUT_FAILED, FULL = 0, 266, 778, 1034, 1546, 13
DELETE_FAILED = 2570
"""SQLite's result codes."""
CLOSE, READ, WRITE, TRUNCATE, SYNC = 1, 2, 3, 4, 5
"""Indices in the table of a file's functions; index 0 holds its version."""
FILE_FUNCTIONS = 19


class _Vfs(Structure):
    _fields_ = (
        ("version", c_int),
        ("file_bytes", c_int),
        ("path_bytes", c_int),
        ("next", c_void_p),
        ("name", c_char_p),
        ("data", c_void_p),
        ("open", c_void_p),
        ("delete", c_void_p),
        ("rest", c_void_p * 14),
    )


_Open = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
_Delete = CFUNCTYPE(c_int, c_void_p, c_char_p, c_int)
_Close = CFUNCTYPE(c_int, c_void_p)
_Transfer = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_Truncate = CFUNCTYPE(c_int, c_void_p, c_int64)
_Sync = CFUNCTYPE(c_int, c_void_p, c_int)
_KINDS: dict[int, Any] = {CLOSE: _Close, READ: _Transfer, WRITE: _Transfer, TRUNCATE: _Truncate, SYNC: _Sync}


def library() -> Any:
    """The SQLite library that Python's `sqlite3` uses; None: ctypes cannot find its functions."""
    if not sys.platform.startswith("linux"):
        return None
    import _sqlite3

    found = ctypes.CDLL(getattr(_sqlite3, "__file__", None))
    if not hasattr(found, "sqlite3_vfs_register"):
        return None
    found.sqlite3_vfs_find.restype = POINTER(_Vfs)
    return found


def usable() -> bool:
    """Whether SQLite's files can be watched here."""
    return library() is not None


class SqliteFiles:
    """Watches the files that SQLite opens under a root, from `install` to `remove`.

    Args:
        disk: Its methods `sqlite_read`, `sqlite_write` and so on are called before each operation. The operation is
            done if they return `OK`; any other code is SQLite's result.
    """

    def __init__(self, root: Path, disk: Disk) -> None:
        self._root = f"{root}/".encode()
        self._disk = disk
        self._library = library()
        self._paths: dict[int, str] = {}
        """By address of the open file."""
        self._tables: dict[int, Any] = {}
        """Copied tables of functions by address of the original."""
        self._original: dict[int, dict[int, Any]] = {}
        """By open file: SQLite's own functions."""
        self._kept: list[Any] = []
        """Objects that C code points to."""
        self._default = self._library.sqlite3_vfs_find(None)
        self._shim = _Vfs()
        ctypes.memmove(byref(self._shim), self._default, sizeof(_Vfs))
        self._shim.name = b"umi-watched"
        self._open_original = cast(self._shim.open, _Open)
        self._delete_original = cast(self._shim.delete, _Delete)
        self._shim.open = self._callback(_Open, self._opened)
        self._shim.delete = self._callback(_Delete, self._deleted)
        self._ours = {
            CLOSE: self._callback(_Close, self._closed),
            READ: self._callback(_Transfer, self._read),
            WRITE: self._callback(_Transfer, self._written),
            TRUNCATE: self._callback(_Truncate, self._truncated),
            SYNC: self._callback(_Sync, self._synced),
        }

    def install(self) -> None:
        """Watch the files that are opened from now on."""
        self._library.sqlite3_vfs_register(byref(self._shim), 1)

    def remove(self) -> None:
        """Watch no further files. Open ones stay watched; keep this object until all of them are closed."""
        self._library.sqlite3_vfs_unregister(byref(self._shim))
        self._library.sqlite3_vfs_register(self._default, 1)

    def _callback(self, kind: Any, function: Callable[..., int]) -> int | None:
        made = kind(function)
        self._kept.append(made)
        return cast(made, c_void_p).value

    def _opened(self, vfs: int, name: int | None, file: int, flags: int, out: int) -> int:
        code: int = self._open_original(vfs, name, file, flags, out)
        path = b"" if name is None else ctypes.string_at(name)
        if code == OK and path.startswith(self._root):
            first = cast(file, POINTER(c_void_p))
            address = first[0]
            if address is None:
                return code
            if address not in self._tables:
                self._tables[address] = self._copied(address)
            table, originals = self._tables[address]
            first[0] = ctypes.addressof(table)
            self._paths[file], self._original[file] = path.decode(), originals
            self._disk.sqlite_opened(path.decode())
        return code

    def _copied(self, address: int) -> tuple[Any, dict[int, Any]]:
        table = (c_void_p * FILE_FUNCTIONS)()
        ctypes.memmove(table, address, sizeof(table))
        originals: dict[int, Any] = {at: cast(table[at], kind) for at, kind in _KINDS.items()}
        for at, ours in self._ours.items():
            table[at] = ours
        return table, originals

    def _deleted(self, vfs: int, name: bytes, sync: int) -> int:
        if name.startswith(self._root):
            refused = self._disk.sqlite_delete(name.decode())
            if refused:
                return refused
        return int(self._delete_original(vfs, name, sync))

    def _closed(self, file: int) -> int:
        self._paths.pop(file)
        return int(self._original.pop(file)[CLOSE](file))

    def _read(self, file: int, buffer: int, size: int, offset: int) -> int:
        return self._disk.sqlite_read(self._paths[file]) or self._original[file][READ](file, buffer, size, offset)

    def _written(self, file: int, buffer: int, size: int, offset: int) -> int:
        refused = self._disk.sqlite_write(self._paths[file], offset, ctypes.string_at(buffer, size))
        return refused or self._original[file][WRITE](file, buffer, size, offset)

    def _truncated(self, file: int, size: int) -> int:
        return self._disk.sqlite_truncate(self._paths[file], size) or self._original[file][TRUNCATE](file, size)

    def _synced(self, file: int, flags: int) -> int:
        return self._disk.sqlite_sync(self._paths[file])  # no real sync: the power is never cut
