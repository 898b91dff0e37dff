"""Bulk ingestion into any store, in one process or on Ray; an interrupted run continues with the same call.

    from umi_common.ingest import ingest

    report = ingest(store, ["corpus"], checkpoint="corpus.checkpoint", show_progress=True)

`umi_common.files` does the work; `umi_common.files.index` is the same for an embedded store beside its files. `ray/`
distributes it to many processes.
"""

from umi_common.files.report import Problem, Report
from umi_common.files.run import ingest

__all__ = ["Problem", "Report", "ingest"]
