"""Bulk ingestion on Ray: workers read, chunk, embed and write; those that die are replaced.

run            the call
crew           the workers
remote_store   a store that one process holds and the workers write to
"""
