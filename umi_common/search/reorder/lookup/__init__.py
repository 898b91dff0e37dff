"""Raise the candidates that hold, verbatim, what the query looks up: codes, names, phrases, keywords and entries.

In: a `RankedPool`, the chunks of its first rows, and a `Lookup`. Out: a `RankedPool` whose first rows may stand in
another order. This stage corrects the arms: vectors place "error 502" near "error 501", and BM25 does not see the order
of words.

    codes        "UMB-2231", "error 502", "bug 983434"
    names        "os.path.join", "--force", "GDPR"; a text that defines a name counts more
    full_names   "Tara Hale", "Hale, Tara"
    phrases      phrases in quotation marks, a short query word for word, all keywords of a query
    entries      the word with which an entry of a dictionary or reference begins
    stage        finds all that a query looks up (`looked_up`), and computes the new scores of the candidates

`codes`, `names`, `full_names`, `phrases` and `entries` each find their parts of a query, and compute how well texts
hold them.
"""
