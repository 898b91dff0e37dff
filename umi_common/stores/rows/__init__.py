"""Chunks as arrays by row number.

rows       ids, sources, positions, times of all rows; which are alive
metadata   metadata by key, for filters
"""
