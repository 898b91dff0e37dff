"""One file as chunks. In: a path, its bytes, `ReadLimits`. Out: `FileChunks`.

chunks       picks the reader by the file's ending; ids, source, position
reading      bytes of a file within limits, and their text
passages     a text cut into passages at headings, paragraphs, sentences
markup       headings and tables of Markdown; HTML as text with both
json_text    values of JSON as lines; notebooks as Markdown
mail         headers and body of mails
chat         chat logs: one passage a message
pdf          text of PDFs, through a child process
pdf_child    that process
"""
