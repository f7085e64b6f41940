"""The parts of `process.worker`: threads, signals, the end of a process, and its reload without a supervisor."""
