"""Reorder the best candidates by the names of their sources, and by what else these hold.

In: a `RankedPool`, and the chunks of its first rows. Out: a `RankedPool` whose first rows may stand in another order.

    names        the chunks of a file whose name the query spells are raised
    next_chunks  the text below a heading that is alone in its chunk comes directly behind it, and the answer in a chat
                 directly behind its question
    documents    among the chunks of a document that the query names, the one that answers comes before its first chunk
"""
