"""Stages that reorder the best candidates of one search by their texts.

In: a `RankedPool`, and the chunks of its first rows. Out: a `RankedPool` whose first rows may stand in another order.
`stages.reorder_stages` chooses the stages of a search. `search.pipeline` fetches the chunks that these stages read,
and calls the stages in this order:

    sources            by whether the query spells the name of the file
    numbers            by the query's numbers together with the words beside them
    late_interaction   by how well the tokens of the text match the tokens of the query
    speaker            by whether the text is a message of the speaker that the query names
    lookup             by the query's codes, names, phrases and keywords, which `names` and `phrases` find verbatim
    phrases            by the runs of the query's words that the text holds
    alike              of candidates that are nearly alike, the one that holds more of the query's words comes first
    sources            by what else the source holds: a heading or a question before the text, a title of all
    alike              candidates that hold words that the query excludes come behind candidates without these words
    in_time_order      of candidates with nearly equal scores, the latest or the oldest is raised if the query asks so

`weight` in the formulas is the setting of the stage, >= 0, such as `FusionConfig.lookup_weight`. `best` holds the
candidates that a stage reads, and puts them into a new order. `words` holds functions on texts, and gains, that several
stages share. Each stage was measured (docs/decisions.md).
"""
