"""Bulk ingestion into any store: read, chunk, embed, upsert; interrupted anywhere, the same call goes on from there.

from umi_common.ingest import ingest

report = ingest(store, ["corpus"], checkpoint="corpus.checkpoint", show_progress=True)

`umi_common.files.index` follows the files of one project into a store beside them. This is for more: big files of
records are cut into ranges, what is finished is kept in a checkpoint apart from the store, the store may be a server,
and `umi_common.ingest.ray.run` does the same on many workers.
"""

from umi_common.ingest.report import Problem, Report
from umi_common.ingest.run import ingest

__all__ = ["Problem", "Report", "ingest"]
