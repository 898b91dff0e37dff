"""Stages that reorder the best candidates of one search by their texts.

In: a `RankedPool`, and the chunks of its first rows. Out: a `RankedPool` whose first rows may stand in another order.
`stages` lists the stages that a search runs, in this order, without `rerank`. `search.pipeline` fetches the chunks that
these stages read, calls them one after the other, and then calls `rerank`:

    number_pairs       by the query's numbers together with the words beside them
    late_interaction   by how well the tokens of the text match the query's
    speaker            by whether the text is a message of the speaker that the query names
    lookup/            by the query's codes, names, phrases and keywords, found verbatim
    word_runs          by the runs of the query's words that the text holds
    alike              of alike candidates, the one that holds more of the query's words first
    excluded           candidates that hold terms that the query excludes, behind those without them
    in_time_order      of nearly equal candidates, the latest or the first one first, if the query asks for it
    rerank             by a cross-encoder or another model of the user's

`words` holds the functions that several stages share. The functions of `search.rank` change the ranking.
"""
