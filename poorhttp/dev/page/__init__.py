"""What a browser or a terminal shows of an error."""
