"""Files and folders into a store: add new files, replace changed ones, remove vanished ones.

    from umi_common.files import index

    report = index(store, ["docs"])        # unchanged files are not read the next time

In: paths and a store. Out: chunks in the store, a `Report`, and a checkpoint that the next run continues from.

    run          `index`: one process
    session      one run: selects the parts to do, records their outcomes, removes stale chunks
    walk         the files below folders, without following links out of them
    parts        a file as parts: the whole file, or ranges of its records
    work         read, embed and write some parts
    checkpoint   which parts are in the store: a SQLite file
    report       counts and problems of a run
    readers/     one file as chunks, by its ending
"""

from umi_common.files.readers.chunks import chunks_of
from umi_common.files.report import Report
from umi_common.files.run import index

__all__ = ["Report", "chunks_of", "index"]
