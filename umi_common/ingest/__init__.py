"""Bulk ingestion into any store, in one process or on Ray; an interrupted run continues with the same call.

    from umi_common.ingest import ingest

    report = ingest(store, ["corpus"], checkpoint="corpus.checkpoint", show_progress=True)

`ingest` is `umi_common.files.index` under the name that fits a large corpus. `ray/` distributes it to many processes.
"""

from umi_common.files.report import Problem, Report
from umi_common.files.run import index as ingest

__all__ = ["Problem", "Report", "ingest"]
