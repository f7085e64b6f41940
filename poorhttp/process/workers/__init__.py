"""The parts of `process.supervisor`: the plan, the number and the life of its workers."""
