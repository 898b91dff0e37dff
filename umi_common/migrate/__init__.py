"""Copy a store with its vectors into another store, and compare the two stores. Nothing is embedded.

    with HybridStore.open("./memory", read_only=True) as source:
        target = QdrantStore(client, "memory", source.embedder, config=source.config)
        migrate(source, target, checkpoint=Path("memory.migration.json"))

Chunks are copied by rising id, one page at a time; copying a page again changes nothing. After a kill, the next run
continues after the last page that the target acknowledged.

    run          checks both stores, copies and records the progress in a file, compares
    comparison   compares every chunk and vector, and the results of sampled queries
"""

from umi_common.migrate.comparison import content_hash
from umi_common.migrate.run import Migrated, migrate

__all__ = ["Migrated", "content_hash", "migrate"]
