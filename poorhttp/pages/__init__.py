"""What all pages have in common, whichever part makes them: html with one style sheet, which clients may see details,
which kind of answer they ask for, and which values are hidden. Imports nothing of the server and nothing that was
compiled.
"""
