"""Where chunks live: the ledger, the two indexes over it, and the store that keeps them in step."""
