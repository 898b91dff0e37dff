"""Bulk ingestion into any store, in one process or on Ray. After an interruption, the same call continues the run.

    from umi_common.ingest import ingest

    report = ingest(store, ["corpus"], checkpoint="corpus.checkpoint", show_progress=True)

`ingest` is the function `umi_common.files.index`. `umi_common.ingest.ray` distributes the work to many processes.
"""

from umi_common.files.report import Problem, Report
from umi_common.files.run import index as ingest

__all__ = ["Problem", "Report", "ingest"]
