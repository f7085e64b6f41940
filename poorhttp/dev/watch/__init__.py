"""What changed: the files that the application was made of, and what became of them."""
