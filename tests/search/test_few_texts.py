"""A question to a store of a few texts finds the text that means it, not one that shares a common word with it."""

from __future__ import annotations

import numpy as np

from umi_common import Chunk, DualRetriever, HybridStore
from umi_common.embedders.default import default_embedder

SETTINGS = [
    "backup.keep = 7: Dumps that are kept; the oldest is removed first.",
    'cache.backend = "memory": memory or redis. With more than one process choose redis, otherwise each has its own.',
    "server.read_timeout_s = 30: Seconds the server waits for a client to send its request before it gives up.",
    "auth.sso_only = false: If true the password form is hidden and only the company's identity provider works.",
    "log.rotate_days = 14: Old log files are deleted after so many days. 0 keeps them for ever.",
    'db.url = "postgres://app@db/app": Where the database is. The password is read from DB_PASSWORD, never from here.',
]


def test_in_a_store_of_a_few_texts_the_meaning_of_a_question_counts_more_than_a_common_word():
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(f"c{n}", text) for n, text in enumerate(SETTINGS)])
        assert umi.search("how many old backups").ids[0] == "c0"  # "old" is a word of the log files


def raised(texts: list[str]) -> np.ndarray:
    """The vectors of the built-in model with one more dimension, which raises each cosine from c to 0.7 + 0.3 c."""
    vectors = default_embedder().embed_documents(texts)
    return np.hstack([vectors * 0.3**0.5, np.full((len(texts), 1), 0.7**0.5)])


def test_if_an_embedder_raises_all_cosines_a_store_of_a_few_texts_still_does_not_answer_other_questions():
    with HybridStore.open(embedder=raised) as store, DualRetriever(store) as umi:
        store.add([Chunk(f"c{n}", text) for n, text in enumerate(SETTINGS[:3])])
        for question in ("who won the final at Wimbledon", "capital of Mongolia"):
            assert umi.search(question)[0].relevance < 0.5
        assert umi.search("how many dumps are kept")[0].relevance > 0.5
