"""Read one file and cut it into chunks. In: a path, the file's bytes, `ReadLimits`. Out: `FileChunks`.

chunks       selects the reader by the file's ending; sets ids, source and position of the chunks
reading      reads the bytes of a file within limits, and decodes its text
passages     cuts a text into passages at headings, paragraphs, sentences
markup       finds headings and tables in Markdown and similar markup; text, headings and tables of HTML
json_text    turns values of JSON into lines, and notebooks into Markdown
mail         reads headers and body of mails
chat         reads chat logs: one passage for each message
pdf          reads the text of PDFs in a child process
pdf_child    the program of that child process
"""
