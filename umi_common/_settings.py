"""Read settings from a TOML file and the environment. A file of its own: pydantic-settings is slow to import."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict
from pydantic_settings.exceptions import SettingsError

from umi_common.config import ENVIRONMENT_PREFIX
from umi_common.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read_settings(model: type[BaseModel], path: str | Path | None) -> dict[str, Any]:
    """The file's tables; variables `UMI_<STAGE>__<FIELD>` replace single fields. The caller validates the values.

    Raises:
        ConfigError: If the file cannot be read or parsed, or a variable is not valid JSON where JSON is needed.
    """
    values = _read_toml(Path(path)) if path is not None else {}
    settings = type("Settings", (BaseSettings,), {"__annotations__": _stages(model), **_defaults(model)})
    source = EnvSettingsSource(settings, env_prefix=ENVIRONMENT_PREFIX, env_nested_delimiter="__", case_sensitive=False)
    try:
        environment = source()
    except SettingsError as error:
        raise ConfigError(f"a {ENVIRONMENT_PREFIX}* variable cannot be read: {error}") from error
    for stage, fields in environment.items():
        if isinstance(fields, dict) and isinstance(values.get(stage), dict):
            values[stage] = {**values[stage], **fields}
        else:
            values[stage] = fields
    return values


def _stages(model: type[BaseModel]) -> dict[str, Any]:
    return {name: field.annotation for name, field in model.model_fields.items()}


def _defaults(model: type[BaseModel]) -> dict[str, Any]:
    defaults = {name: field.default for name, field in model.model_fields.items()}
    return {**defaults, "model_config": SettingsConfigDict(extra="ignore")}


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        tables: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        return tables
    except OSError as error:
        raise ConfigError(f"cannot read the settings file {path}: {error.strerror}; check the path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error
