"""From one store to another, vectors and all: nothing is embedded again, nothing counts until it was read back.

    with HybridStore.open("./memory", read_only=True) as source:
        target = QdrantStore(client, "memory", source.embedder, config=source.config)
        migrate(source, target, checkpoint=Path("memory.migration.json"))

Chunks go over in the order of their ids, a page at a time, by calls that change nothing when they are repeated. A run
that was killed goes on after the last page that its target has acknowledged.
"""

from umi_common.migrate.comparison import content_hash
from umi_common.migrate.run import Migrated, migrate

__all__ = ["Migrated", "content_hash", "migrate"]
