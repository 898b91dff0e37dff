"""Find the files below folders. A symbolic link out of the folders is followed only if the caller asks for it."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

from umi_common.errors import FileUnreadable, InputError
from umi_common.files.readers.chunks import ENDINGS
from umi_common.files.readers.reading import unreadable
from umi_common.files.report import Problem, Report
from umi_common.types import inode_of

FOLDERS_LEFT_OUT = frozenset({"node_modules", "__pycache__", "site-packages", "venv"})
"""Names of folders that are not read. Files and folders whose names begin with a dot are not read either."""


def checked_roots(paths: object, *, remove_missing: bool = False) -> list[Path]:
    """The given path or paths as absolute paths, with "~" and symbolic links resolved: a link that the caller gives is
    always followed.

    Raises:
        InputError: If an entry is not a string or a path, or is empty.
        FileUnreadable: If a path cannot be accessed, or does not exist; with `remove_missing`, it need not exist.
    """
    several = isinstance(paths, Iterable) and not isinstance(paths, (str, bytes))
    given: list[Any] = list(paths) if several else [paths]  # type: ignore[call-overload]
    for path in given:
        if not isinstance(path, (str, os.PathLike)) or path == "":
            raise InputError(f'{path!r:.80} is no path; expected names of files and folders, "." for the current one')
        try:
            Path(path).expanduser().stat()
        # ValueError: the path holds a NUL. RuntimeError: "~" stands for the home of an unknown user.
        except (FileNotFoundError, NotADirectoryError, ValueError, RuntimeError) as error:
            if not (remove_missing and isinstance(error, OSError)):
                raise FileUnreadable(
                    f"{path} does not exist; give files or folders that do, or remove what was indexed from it with "
                    "--remove-missing (remove_missing=True)"
                ) from error
        except OSError as error:
            raise unreadable(Path(path), error) from error
    return [Path(path).expanduser().resolve() for path in given]


def store_directory(store: object) -> Path | None:
    """The folder of the store's files, its attribute `path`; None: it has none."""
    directory = getattr(store, "path", None)
    return None if directory is None else Path(directory)


def files_once_named(sources: Iterable[str], base: Path | None, roots: Sequence[Path]) -> list[Path]:
    """The files with these sources, below `roots`, that `files_below` does not find. An earlier run read them because
    they or one of their folders were named. Files that are gone, and paths through a symbolic link, are left out.
    """
    paths = [path_of(source, base) for source in sources if _is_left_out(source)]
    return [
        path
        for path in paths
        if any(path.is_relative_to(root) and _is_left_out(path.relative_to(root).as_posix()) for root in roots)
        and os.path.isfile(path)  # noqa: PTH113 - `Path.is_file` raises if a folder cannot be accessed
        and real_path(path) == path
    ]


def _is_left_out(path: str) -> bool:
    """Whether `files_below` leaves out a file with this path below a root: hidden, by its ending or by its folder."""
    *folders, name = path.split("/")
    hidden = any(part.startswith(".") for part in (*folders, name))
    return hidden or Path(name).suffix.lower() not in ENDINGS or not FOLDERS_LEFT_OUT.isdisjoint(folders)


def files_below(
    roots: Sequence[Path], store: Path | None, report: Report, *, follow_symlinks: bool = False
) -> dict[Path, Path]:
    """Find the files below `roots` that umi can read: {path without symbolic links: path by which the file is read}.

    The two paths differ if the file is found through links only; then the second is the first of these paths in sorted
    order. Files of other kinds, links that are not followed and folders that cannot be listed are added to `report`.
    Names that begin with a dot and FOLDERS_LEFT_OUT are skipped without an entry in the report.

    Args:
        roots: Absolute paths without symbolic links. A file among them is read, whatever its ending. A path that does
            not exist is left out.
        store: The store's own folder, which is not read; None: the store has none.
        follow_symlinks: False: links to a path outside of all roots are skipped, and links to folders are not walked.
            True: all links are followed; a folder is walked once, even if several links or a loop lead to it.
    """
    files: dict[Path, Path] = {}
    for linked, path in sorted(_paths_below(roots, store, report, follow_symlinks)):
        files.setdefault(real_path(path) if linked else path, path)
    return files


def _paths_below(
    roots: Sequence[Path], store: Path | None, report: Report, follow_symlinks: bool
) -> Iterator[tuple[bool, Path]]:
    """Yield (whether the path leads through a link, path) for each path below `roots` to a file that umi reads."""
    seen: set[object] = set() if store is None else {inode_of(store)}
    named = set(roots)
    yield from ((False, root) for root in roots if not is_no_file(root))
    # A heap of (whether a link leads to the folder, folder): of several paths of a folder, the one without links is
    # read if it is below the roots, else the first in sorted order.
    folders = sorted((False, root) for root in roots if root.is_dir())
    while folders:
        in_linked, folder = heappop(folders)
        identity = inode_of(folder) or folder  # None if it is gone or not accessible: `_entries` reports it
        if identity in seen:
            continue
        seen.add(identity)
        for entry in _entries(folder, report):
            path = Path(folder, entry.name)
            is_folder = os.path.isdir(path)  # noqa: PTH112 - `Path.is_dir` raises for a link that cannot be followed
            if entry.name.startswith(".") or (is_folder and entry.name in FOLDERS_LEFT_OUT) or path in named:
                continue
            if not is_folder:
                if _has_known_ending(path, report) and (follow_symlinks or not _reported_outside(path, named, report)):
                    yield in_linked or entry.is_symlink(), path
            elif follow_symlinks or not entry.is_symlink():
                heappush(folders, (in_linked or entry.is_symlink(), path))
            else:  # a link to a folder is not followed, and need not be reported if the folder is inside
                _reported_outside(path, named, report)


def check_inside(path: Path, roots: Collection[Path]) -> None:
    """Raise FileUnreadable if the path is a symbolic link to a path outside of all roots."""
    if path.is_symlink() and is_outside(path, roots):
        raise FileUnreadable(
            f"{path} is a link to {os.path.realpath(path)}, outside of the folders; leave it out, or follow links with "
            "--follow-symlinks (follow_symlinks=True)"
        )


def is_outside(path: Path, roots: Collection[Path]) -> bool:
    """Whether a path below a root leads outside of all roots, because it or one of its folders is a link."""
    real = real_path(path)
    return not any(each in roots for each in (real, *real.parents))


def real_path(path: Path) -> Path:
    """The absolute path without symbolic links. `Path.resolve` raises an error for a loop before Python 3.13."""
    return Path(os.path.realpath(path))


def is_no_file(path: Path) -> bool:
    """Whether a path does not exist or is a folder; False if it cannot be accessed, because it may be a file."""
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False


def is_empty_folder(path: Path) -> bool:
    """Whether a path is a folder without entries, such as the mount point of a disk that is not mounted."""
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is None
    except OSError:
        return False


def source_of(path: Path, base: Path | None) -> str:
    """The source name of an absolute path: the path relative to `base` if it is below `base`, else the whole path."""
    if base is not None and path.is_relative_to(base):
        path = path.relative_to(base)
    return path.as_posix()


def path_of(source: str, base: Path | None) -> Path:
    """The absolute path of a source name that `source_of` made with this `base`."""
    return Path(base or "/", source)


def _entries(folder: Path, report: Report) -> list[os.DirEntry[str]]:
    """The entries of a folder, sorted by name; none if it cannot be listed, which is added to the report."""
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        why = f"{unreadable(folder, error)}; what an earlier run stored of its files can still be found"
        report.problems.append(Problem("", FileUnreadable.__name__, why))
        return []


def _has_known_ending(path: Path, report: Report) -> bool:
    """Whether umi reads files with this ending; any other file is counted in `report.left_out`."""
    known = path.suffix.lower() in ENDINGS
    # A pipe, or a link to no file, is not counted: it could not be read if the user named it.
    if not known and os.path.isfile(path):  # noqa: PTH113 - `Path.is_file` raises for a link that cannot be followed
        kind = path.suffix.lower() or path.name
        report.left_out[kind] = report.left_out.get(kind, 0) + 1
    return known


def _reported_outside(path: Path, roots: Collection[Path], report: Report) -> bool:
    """Whether `check_inside` refuses the path; then its error is added to the report."""
    try:
        check_inside(path, roots)
    except FileUnreadable as error:
        report.problems.append(Problem.of("", error))
        return True
    return False
