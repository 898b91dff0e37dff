"""What `umi demo` shows: the standard library's own docs, and a short dated conversation."""
