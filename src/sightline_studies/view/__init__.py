"""A study as a folder: the page, Markdown, tables and figures."""
