"""Configurations addressed by "stage.field", and written as the TOML that `UmiConfig.load` reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from umi_common.config import UmiConfig
from umi_common.errors import ConfigError


def changed(config: UmiConfig, settings: Mapping[str, Any]) -> UmiConfig:
    """The configuration with "stage.field" settings replaced.

    Raises:
        ConfigError: If a name is not of that form or unknown, or a value is out of range.
    """
    stages: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        stage, dot, field = name.partition(".")
        if not dot or stage not in UmiConfig.model_fields:
            raise ConfigError(
                f"{name!r} is no setting; expected stage.field, stage one of {', '.join(UmiConfig.model_fields)}"
            )
        stages.setdefault(stage, {})[field] = value
    return config.replaced(**stages)


def write_toml(config: UmiConfig, path: Path, note: str) -> None:
    """Every field that differs from its default, a table a stage, under a comment.

    Raises:
        ConfigError: If a field was set to None and its default is not: TOML has no null.
    """
    blocks = [f"# {note}"]
    defaults = UmiConfig()
    for stage in UmiConfig.model_fields:
        values, usual = getattr(config, stage).model_dump(), getattr(defaults, stage).model_dump()
        lines = [f"{field} = {_toml(stage, field, value)}" for field, value in values.items() if value != usual[field]]
        if lines:
            blocks.append("\n".join([f"[{stage}]", *lines]))
    path.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")


def _toml(stage: str, field: str, value: Any) -> str:
    if value is None:
        raise ConfigError(f"{stage}.{field} is None, which a TOML file cannot say; set it in code")
    if isinstance(value, (frozenset, set)):
        value = sorted(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_toml(stage, field, item) for item in value)}]"
    if isinstance(value, str):  # a JSON string is a TOML basic string, but for DEL
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value) if isinstance(value, bool) else repr(value)
