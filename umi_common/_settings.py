"""Read settings from a TOML file and the environment.

`config` imports this module only when it reads settings, because pydantic-settings is slow to import.
"""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel
from pydantic_settings import EnvSettingsSource
from pydantic_settings.exceptions import SettingsError

from umi_common.config import ENVIRONMENT_PREFIX, nearest_name
from umi_common.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read_settings(model: type[BaseModel], path: str | Path | None) -> dict[str, Any]:
    """The tables of a TOML file, with the fields replaced that environment variables `UMI_<SECTION>__<FIELD>` set.

    The values are not checked here. `path` None: only the environment is read.

    Raises:
        ConfigError: If the file cannot be read or parsed, or if a variable names no section of `UmiConfig`, has one
            underscore after the section instead of two, or holds a list or a table that is not valid JSON.
    """
    sections = "|".join(model.model_fields)
    one_underscore = re.compile(f"({ENVIRONMENT_PREFIX}(?:{sections}))_(?!_)(.+)", re.IGNORECASE)
    other_section = re.compile(f"{ENVIRONMENT_PREFIX}(?!(?:{sections})__)(.+?)__.*", re.IGNORECASE)
    for name in os.environ:
        if found := one_underscore.fullmatch(name):
            raise ConfigError(f"{name} is no setting; write two underscores: {found[1]}__{found[2]}")
        if found := other_section.fullmatch(name):
            section = found[1].lower()
            advice = nearest_name(section, model.model_fields)
            raise ConfigError(f"{name} is no setting: there is no stage {section}; {advice}")
    values = _read_toml(path) if path is not None else {}
    source = EnvSettingsSource(
        model,  # type: ignore[arg-type]  # the source reads only the fields, which every model has
        env_prefix=ENVIRONMENT_PREFIX,
        env_nested_delimiter="__",
        case_sensitive=False,
    )
    try:
        environment = source()
    except SettingsError as error:
        raise ConfigError(
            f"a {ENVIRONMENT_PREFIX}* variable cannot be read: {error}; write a list or a table as JSON"
        ) from error
    for section, fields in environment.items():
        if isinstance(fields, dict) and isinstance(values.get(section), dict):
            values[section] = {**values[section], **fields}
        else:
            values[section] = fields
    return values


def variable_of(message: str) -> str | None:
    """The environment variable that sets the setting with which an error's message begins; None: there is none.

    Example: UMI_FUSION__RRF_K for "UmiConfig.fusion.rrf_k: Input should be greater than 0; got '-1'".
    """
    found = re.match(r"\w+\.(\w+)(?:\.(\w+))?", message)
    if found is None:
        return None
    section, field = found.groups()
    of_field = f"(?:__{field}(?:__.*)?)?" if field else ""
    variable = re.compile(f"{ENVIRONMENT_PREFIX}{section}{of_field}", re.IGNORECASE)
    return next((name for name in os.environ if variable.fullmatch(name)), None)


class WatchedFile:
    """Detects that a settings file has changed.

    Args:
        path: TOML; it need not exist.
        seconds: Smallest number of seconds between two checks of the file.
    """

    def __init__(self, path: str | Path, seconds: float) -> None:
        if not (isinstance(seconds, (int, float, np.number)) and seconds >= 0):
            raise ConfigError(f"seconds is {seconds!r:.80}; expected a number of seconds, at least 0")
        self.path = Path(path).expanduser().absolute()
        self._seconds = seconds
        self._stamp = self._stamp_now()
        self._checked_at = time.monotonic()

    def changed(self) -> bool:
        """Whether the file has changed since the last check; False if the last check was less than `seconds` ago.

        A file that was deleted counts as unchanged; once it exists again, it counts as changed.
        """
        now = time.monotonic()
        if now - self._checked_at < self._seconds:
            return False
        self._checked_at = now
        before, self._stamp = self._stamp, self._stamp_now()
        return self._stamp not in (before, None)

    def _stamp_now(self) -> tuple[int, int, int] | None:
        """Time of the last change, size and inode of the file; None: there is no file."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def _read_toml(file: str | Path) -> dict[str, Any]:
    try:
        path = Path(file)
    except TypeError as error:
        raise ConfigError(f"path is {type(file).__name__}; expected the path of a TOML file, or None") from error
    try:
        # utf-8-sig: Windows editors write a byte-order mark.
        tables: dict[str, Any] = tomllib.loads(path.expanduser().read_text(encoding="utf-8-sig"))
        return tables
    except (OSError, RuntimeError) as error:  # RuntimeError: "~name" where no user has this name
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"cannot read the settings file {path}: {reason}; check the path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML in UTF-8: {error}; correct the file") from error
