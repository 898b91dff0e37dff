"""References between chunks, for a store that has a lexical index.

In: the best candidates of a search. Out: weighted references to chunks that say what of the query they leave out.

    names    headings of chunks, and where texts mention them
    find     references by name and by rare term, weighted by what the query still needs
"""
