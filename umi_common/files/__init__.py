"""Index files and folders in a store: add new files, replace changed ones, remove vanished ones.

    from umi_common.files import index

    report = index(store, ["docs"])        # unchanged files are not read the next time

`index` writes the chunks of the files to the store and returns a `Report`. A checkpoint file records which parts of the
files are in the store, and the next run continues from it.

    run          `index`: a run in one process
    session      selects the parts that are not in the store, records their outcomes, removes stale chunks
    walk         finds the files below folders; follows links out of the folders only on request
    parts        cuts a file into parts, the whole file or ranges of its records; reads, embeds and writes some parts
    checkpoint   the checkpoint, a SQLite file
    report       counts and problems of a run
    readers/     turn one file into chunks; the file's ending selects the reader
"""

from umi_common.files.readers.chunks import chunks_of
from umi_common.files.report import Report
from umi_common.files.run import index

__all__ = ["Report", "chunks_of", "index"]
