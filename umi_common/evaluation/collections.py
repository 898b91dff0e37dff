"""A folder of whatever layout to datasets."""

from __future__ import annotations

from pathlib import Path

from umi_common.errors import DatasetError
from umi_common.evaluation.beir import CORPUS, load_beir, load_conversations
from umi_common.evaluation.datasets import Dataset
from umi_common.evaluation.haystacks import HAYSTACKS, load_haystacks


def load_folder(folder: str | Path) -> list[Dataset]:
    """What a folder holds: a BEIR collection, one haystack a question, or a BEIR folder a conversation.

    Raises:
        DatasetError: If it is none of these, or a file in it is malformed.
    """
    home = Path(folder)
    if (home / CORPUS).exists():
        return [load_beir(home)]
    if (home / HAYSTACKS).is_dir():
        return load_haystacks(home)
    if any(home.glob(f"*/{CORPUS}")):
        return load_conversations(home)
    raise DatasetError(
        f"{home} is no collection; expected {CORPUS} (BEIR), {HAYSTACKS}/ (LongMemEval) or folders with a {CORPUS} each"
    )
