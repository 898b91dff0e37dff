"""Ranking: from the raw scores of a pool to an order. Functions over arrays, which change no array that they get.

In: a `Pool` of n candidates. Out: (n,) scores; a stage also writes what it decided into `facts`, for the trace. Each
stage was measured (docs/decisions.md).

A fusion computes one score per row. A new fusion is a function with a branch in `fusion.fuse_pool`:

    fusion       the fusions, rare terms of the query, the scores of extra arms, reciprocal ranks, ranks by score
    evidence     scores of both arms on one scale: as evidence, which the default fusion adds up, or normalised

Relevance is computed from the same evidence and does not change the scores:

    relevance    the probability that a hit answers the query, comparable over queries

A stage changes the scores: `apply(pool, scores, settings, facts) -> scores`. A new stage is a file here and a line in
`search/rank.py`:

    feedback     a chunk gains if it resembles the best candidates
    neighbours   a chunk gains from the chunks beside it and from its source
    references   a chunk gains if the query names it, or if a good candidate refers to it
    period       a chunk gains if it lies in the period that the query names
    decay        an older chunk scores lower; it is in `umi_common.decay`, because stores use it, too

Stages that read texts are in `search/reorder`. Two selections say which rows stay; both are off by default:

    duplicates   leaves out chunks that repeat a better chunk
    mmr          maximal marginal relevance: prefers chunks unlike those chosen before
"""
