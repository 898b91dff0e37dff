"""The context for a prompt: the best hits that fit a token budget, with their sources. No I/O.

In: hits, a budget, a policy, a token counter. Out: an `AssembledContext`.

    assemble   the steps: pack, render, count, remove pieces until every cap holds
    budget     the caller's arguments (budget, policy) and the result (context, parts, stats)
    pieces     hits and their neighbours as candidates with a value
    pack       chooses pieces greedily by estimated tokens
    stitch     joins chosen pieces of one source, puts the parts in order, and adds the sources of equal texts
    trim       cuts a text that is too long to its beginning, or to the text around a passage
    format     parts to text: plain, XML, JSON, the caller's template
    tokens/    how many tokens a text has
"""
