"""Token vectors of texts, for late interaction. They are the embedded model's, whatever model embeds the chunks.

Words are tokenized one by one and their tokens are cached. Tokenizing fifty messages of a chat as whole texts would
take 12 ms.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from unicodedata import normalize

import numpy as np

from umi_common.embedders.default import default_embedder, embedded_tokenizer
from umi_common.pool import Ints, Vectors

COMPARED_CHARACTERS_MAX = 1_000
"""Only this many first characters of a text are read, some 150 words: more make late interaction slower, not better."""
WORDS_KEPT = 50_000
"""Words whose tokens are cached; at most 40 letters each."""
TEXTS_KEPT = 4_096
"""Texts whose tokens are cached; at most 6 KB each."""
LENGTH_MIN = 1e-12
"""Smallest divisor of a vector, so that a vector of zeros does not become NaN."""
_WORD = re.compile(r"[^\W_]{1,40}")


def token_vectors(texts: Sequence[str]) -> tuple[Vectors, Ints, Ints]:
    """Unit vectors of the distinct tokens of some texts, and the tokens of each text.

    Args:
        texts: n texts; of each the words in lower case are used, without punctuation.

    Returns:
        (T, 256) float32 vectors of all T tokens; (L,) rows of these vectors: the distinct tokens of the first text,
        then those of the second, and so on; (n,) number of tokens of each text, 0 for a text without words.

    Raises:
        EmbedderError: If the embedded model is not installed or cannot be read.
    """
    weights = default_embedder().token_vectors()
    tokens = [_tokens(text[:COMPARED_CHARACTERS_MAX]) for text in texts]
    ids, rows = np.unique(np.concatenate(tokens), return_inverse=True)
    vectors = weights[ids]
    lengths = np.sqrt(np.einsum("td,td->t", vectors, vectors))[:, np.newaxis]
    vectors /= np.maximum(lengths, LENGTH_MIN)
    return vectors, rows, np.array([len(own) for own in tokens], dtype=np.int64)


@lru_cache(TEXTS_KEPT)
def _tokens(text: str) -> Ints:
    # Not a set, whose order differs between processes and would change the rounding of sums.
    words = dict.fromkeys(_WORD.findall(normalize("NFC", text).lower()))
    return np.array([*dict.fromkeys(chain.from_iterable(map(_tokens_of_word, words)))], dtype=np.int64)


@lru_cache(WORDS_KEPT)
def _tokens_of_word(word: str) -> tuple[int, ...]:
    return tuple(embedded_tokenizer().encode(word, add_special_tokens=False).ids)
