"""The application: found, loaded, and asked one request."""
