"""Nearest neighbours by cosine, exact.

In: unit rows and unit queries. Out: the best rows with their cosines, and cosines of given rows.

    cosines   the best rows for a query, and cosines of given rows; by vectors, or by codes of one byte per coordinate
    vectors   the growing array of a store's vectors, with their codes, in memory or in files
"""
