"""What `process.worker` is made of: threads, signals, the end of a process, and its reload without a supervisor."""
