"""Read one file and cut it into chunks.

chunks       selects the reader by the file's ending; sets ids, source and position of the chunks
reading      reads the bytes of a file within limits, and decodes its text
passages     cuts a text into passages at headings, paragraphs, sentences
markup       finds headings, tables, lists, title and front matter in Markdown and similar markup
html_text    reads text, headings, tables and title of an HTML page
json_text    turns values of JSON into lines, and notebooks into Markdown
mail         reads headers and body of mails
chat         reads chat logs: finds the dates and times with which lines begin; one passage for each message
pdf          reads the text of PDFs in a child process
pdf_child    the program of this child process
"""
