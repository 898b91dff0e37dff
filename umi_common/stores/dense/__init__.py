"""Nearest neighbours by cosine, exact.

In: unit rows and unit queries. Out: the best rows with their cosines, and cosines of given rows.

    cosines   search: one pass over the vectors, or over codes of one byte per coordinate first; score: cosines of rows
    vectors   the growing array of a store's vectors, with their codes, in memory or in files
"""
