"""Late interaction: reorder the best candidates by how well their words match the query's words, token by token.

    m(q, i) = max over tokens t of candidate i of cos(q, t)     how well candidate i matches the query's token q
    w(q) = f(q) * (1 - mean_i m(q, i))                          a token that all candidates match counts little
    f(q) = 1; `FUNCTION_TOKEN_FACTOR` if only function words of the query hold q
    s(i) = sum_q w(q) * m(q, i) / sum_q w(q)                    MaxSim
    z(i) = (s(i) - mean s) / max(`DEVIATION_MIN`, deviation s)  over the candidates; z below 0 counts as 0
    final(i) = score(i) * (1 + weight * share * r(i) * z(i)^2)  r: `neighbours.length_factors`, falls with the length

The stage `neighbours` raises all messages around an answer; this stage compares the words of each message itself. This
helps in corpora whose positions carry information, such as chats, so by default `share` depends on the corpus
(`share_of_weight`).

The token vectors are those of the built-in model, whatever model embeds the chunks. Words are tokenized one by one and
their tokens are cached: tokenizing fifty messages of a chat as whole texts would take 12 ms.

`one_word_excess` compares the candidates with the same token vectors before they are ranked.

Source: MaxSim is that of ColBERT (Khattab, Zaharia, SIGIR 2020), here with static token vectors.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from unicodedata import normalize

import numpy as np

from umi_common.config import LateInteractionConfig
from umi_common.embedders.default import WordLlamaEmbedder, default_embedder, embedded_tokenizer
from umi_common.pool import NOT_RANKED, Floats, Ints, Pool, Vectors
from umi_common.ranking.evidence import EPSILON, weighted_sum
from umi_common.ranking.neighbours import length_factors, order_share, share_of_distinct
from umi_common.search.rank import RankedPool
from umi_common.search.reorder.best import Best
from umi_common.search.request import Search
from umi_common.stores.arrays import distinct
from umi_common.stores.dense.cosines import cosines
from umi_common.stores.lexical.languages import all_function_words

DEVIATION_MIN = 0.07
"""Smallest divisor of z, so that candidates whose matches are nearly equal gain next to nothing. 9 in 10 questions to
chats and meetings have a deviation above 0.086; the entries of a changelog have 0.06."""
COMPARED_CHARACTERS_MAX = 1_000
"""Number of characters at the beginning of a text that are read, some 150 words. Reading more makes late interaction
slower and not better."""
FUNCTION_TOKEN_FACTOR = 0.6
"""f(q) of function words. The candidates hold the query's content words, by which they were found, so the "of" that
half of them lack would count more than the words that all of them hold. With 0.5, LoCoMo loses .001 nDCG."""
WORDS_KEPT = 50_000
"""Number of words whose tokens are cached; each word has at most 40 letters."""
TEXTS_KEPT = 4_096
"""Number of texts whose tokens are cached, at most 6 KB for each text."""
ONE_WORD_WEIGHT = 0.7
"""Chosen on halves of ten sets that are not among the dev sets."""
ONE_WORD_COMPARED = 64
"""Number of candidates, those with the largest cosines, that are compared with the tokens."""
LENGTH_MIN = 1e-12
"""Smallest length by which a vector is divided, so that a vector of zeros does not become NaN."""
_WORD = re.compile(r"[^\W_]{1,40}")


def reorder_by_late_interaction(best: Best, *, query: str, config: LateInteractionConfig, share: float) -> RankedPool:
    """The ranking by the formula at the top of this file.

    Raises:
        EmbedderError: As `token_vectors`.
    """
    best.facts["share"] = round(share, 3)
    vectors, tokens, counts = token_vectors([query, *best.texts])
    query_tokens, text_tokens = tokens[: counts[0]], tokens[counts[0] :]
    matches = max_similarity(vectors[query_tokens], vectors, text_tokens, counts[1:])
    length = best.pool.length[best.rows]
    factors = token_factors(query)
    return best.sorted_by(with_late_interaction(best.scores, matches, length, config.weight * share, factors))


def share_of_weight(config: LateInteractionConfig, pool: Pool, order: Ints) -> float:
    """Factor on the weight, 0..1; 0: late interaction is off.

    Copies that differ only in numbers and names match all other tokens of the query equally well, and vectors of
    numbers do not tell which number is the right one. So the factor falls to 0 if the first rows of `order` are copies.
    """
    if not config.enabled:
        return 0.0
    if not config.adaptive:
        return 1.0
    share = order_share(pool.calibration)
    return share * share_of_distinct(pool, order) if share else 0.0


def token_vectors(texts: Sequence[str]) -> tuple[Vectors, Ints, Ints]:
    """Unit vectors of the distinct tokens of some texts, and the tokens of each text.

    Args:
        texts: n texts, of which the words are used, in lower case and without punctuation.

    Returns:
        (T, 256) float32 vectors of all T distinct tokens.
        (L,) rows of these vectors: the distinct tokens of the first text, then those of the second text, and so on.
        (n,) number of distinct tokens of each text, 0 for a text without words.

    Raises:
        EmbedderError: If the built-in model is not installed or cannot be read.
    """
    model = default_embedder()
    tokens = [tokens_of(text[:COMPARED_CHARACTERS_MAX]) for text in texts]
    of_texts = np.concatenate(tokens)
    ids = distinct(of_texts)
    vectors = model.token_vectors().take(ids, axis=0)
    vectors /= _token_lengths(model)[ids, np.newaxis]
    return vectors, ids.searchsorted(of_texts), np.array([len(own) for own in tokens], dtype=np.int64)


@lru_cache(maxsize=1)
def _token_lengths(model: WordLlamaEmbedder) -> Vectors:
    """(32,000,) lengths of the model's token vectors, at least `LENGTH_MIN`."""
    vectors = model.token_vectors()
    return np.asarray(np.maximum(np.sqrt(np.einsum("td,td->t", vectors, vectors)), LENGTH_MIN))


@lru_cache(TEXTS_KEPT)
def tokens_of(text: str) -> Ints:
    # A dict keeps the order; the order of a set differs between processes and would change the rounding of sums.
    words = dict.fromkeys(_words(text))
    return np.array([*dict.fromkeys(chain.from_iterable(map(_tokens_of_word, words)))], dtype=np.int64)


def token_factors(query: str) -> Floats:
    """(Q,) f of each of `tokens_of` the part of a query that is read; all 1 if it has only function words."""
    query = query[:COMPARED_CHARACTERS_MAX]
    words = (word for word in _words(query) if word not in all_function_words())
    content = frozenset(chain.from_iterable(map(_tokens_of_word, words)))
    tokens: list[int] = tokens_of(query).tolist()
    return np.array([FUNCTION_TOKEN_FACTOR if content and token not in content else 1.0 for token in tokens])


def _words(text: str) -> list[str]:
    return _WORD.findall(normalize("NFC", text).lower())


@lru_cache(WORDS_KEPT)
def _tokens_of_word(word: str) -> tuple[int, ...]:
    return tuple(embedded_tokenizer().encode(word, add_special_tokens=False).ids)


def max_similarity(query: Vectors, vectors: Vectors, rows: Ints, counts: Ints) -> Floats:
    """(Q, n) m: for each token of the query, its largest cosine with a token of each candidate.

    Args:
        query: (Q, dim) unit rows.
        vectors: (T, dim) unit rows.
        rows: (L,) rows of `vectors`: the tokens of the first candidate, then those of the second candidate, and so on.
        counts: (n,) number of tokens of each candidate, L in all; m is 0 for a candidate without tokens.
    """
    found: Floats = np.zeros((len(counts), len(query)))
    filled = np.flatnonzero(counts)
    if len(filled) and len(query):
        of_tokens = cosines(query, vectors).take(rows, axis=0)
        found[filled] = np.maximum.reduceat(of_tokens, np.cumsum(counts[filled]) - counts[filled], axis=0)
    return np.asarray(found.T)


def with_late_interaction(
    scores: Floats, matches: Floats, length: Ints, weight: float, factors: Floats | float = 1.0
) -> Floats:
    """(n,) scores by the formula at the top of this file; scores below 0 gain nothing.

    Args:
        scores: (n,)
        matches: (Q, n) m, from `max_similarity`.
        length: (n,) number of terms of each chunk.
        weight: weight * share, >= 0.
        factors: (Q,) f, from `token_factors`.
    """
    token_weights = factors * (1.0 - matches.mean(axis=1))
    if not scores.size or token_weights.sum() <= 0:
        return np.array(scores)
    similarity = weighted_sum(token_weights, matches) / token_weights.sum()
    above = np.maximum(similarity - similarity.mean(), 0.0) / max(float(similarity.std()), DEVIATION_MIN)
    gain = np.maximum(scores, 0.0) * weight * length_factors(length) * above * above
    return np.asarray(scores + gain, dtype=np.float64)


def one_word_excess(search: Search, pool: Pool) -> Floats | None:
    """(n,) how far each candidate resembles a single token of the query, 0..ONE_WORD_WEIGHT; None: 0 for all.

    `evidence.dense_evidence` lowers z by this excess. The built-in model's vector of a query is the mean of token
    vectors, so a cosine is a sum with one part for each token:

        part(i, t)    the part of token t in the cosine of i with the query, or 0 if it is below 0
        share(i, t) = part(i, t) / sum of the parts of all tokens
        excess(i)   = ONE_WORD_WEIGHT * (1 - p) * max(0, share(i, t) - share(query, t))
                      t: the token with the largest share in i;  p: `neighbours.order_share`

    For "why does my cat sneeze at night", one token makes .44 of the cosine of "Sneezing", but .15 of the query's
    cosine with itself: excess .29 * .7. For "a kitten sneezes at night" the shares are .35 and .31: excess .04 * .7.
    Where p is 1, as in chats, late interaction compares each token of the query with the candidates.

    It is 0 for all if another model made the vectors, the caller gave the query's vector, the vectors are not known,
    one arm alone answered, p is 1, or the query has no words.
    """
    embedder = getattr(search.store, "embedder", None)
    if not isinstance(embedder, WordLlamaEmbedder) or search.request.query_vector is not None or pool.mode != "hybrid":
        return None
    weight = ONE_WORD_WEIGHT * (1.0 - order_share(pool.calibration))
    if not weight or not pool.query_vectors.shape[1] == pool.vectors.shape[1] > 0:
        return None
    tokens = tokens_of(search.request.searched[:COMPARED_CHARACTERS_MAX])
    if not len(tokens):
        return None
    rank = pool.dense_rank[0]
    best = ((rank != NOT_RANKED) & (rank <= ONE_WORD_COMPARED)).nonzero()[0]
    vectors = np.concatenate([pool.query_vectors[:1], pool.vectors.take(best, axis=0)])
    parts = np.maximum(cosines(vectors, embedder.token_vectors().take(tokens, axis=0)), 0.0)
    shares = parts / np.maximum(parts.sum(axis=0), EPSILON)
    above_query = (shares - shares[:, :1])[shares.argmax(axis=0), np.arange(len(vectors))]  # column 0: the query itself
    excess = np.zeros(len(pool))
    excess[best] = weight * np.maximum(above_query[1:], 0.0)
    return excess
