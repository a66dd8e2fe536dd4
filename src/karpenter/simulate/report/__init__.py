"""Reports of runs: the document, and the table and the page that show it."""
