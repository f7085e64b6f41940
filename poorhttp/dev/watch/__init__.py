"""Changes of the files that the application was made of."""
