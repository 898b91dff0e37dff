"""Files as chunks: read a folder, cut what is in it at headings, paragraphs and sentences, keep a store level with it.

from umi_common.files import index

report = index(store, ["docs"])        # unchanged files cost nothing the next time
"""

from umi_common.files.chunks import chunks_of
from umi_common.files.folders import index
from umi_common.files.report import Report

__all__ = ["Report", "chunks_of", "index"]
