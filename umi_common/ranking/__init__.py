"""Ranking: from the raw scores of a pool to an order. Pure functions over arrays; none changes its input.

In: a `Pool` of n candidates. Out: (n,) scores, or the rows that stay.

A fusion makes one score per row; add one as a function with a branch in `fusion.fuse_pool`:

    fusion       the fusions, the scores of extra arms, reciprocal ranks, ranks by score
    evidence     scores of both arms on one scale: as evidence, which the default fusion adds up, or normalised

Relevance is computed beside the scores:

    relevance    the probability that a hit answers the query, comparable over queries

A stage changes the scores, `apply(pool, scores, settings, facts) -> scores`; add one as a file here and a line in
`search/rank.py`:

    feedback     a chunk gains if it resembles the best candidates
    neighbours   chunks gain from the chunks beside them and from their source
    references   a chunk gains if one of the best candidates refers to it and lacks query terms that the chunk holds
    period       chunks in the period that the query names gain
    (umi_common.decay, which stores use too: older chunks lose)

(Late interaction needs texts, so it is a step of `search`.) Two selections leave rows out; both are off by default:

    duplicates   chunks that repeat a better one
    mmr          maximal marginal relevance
"""
