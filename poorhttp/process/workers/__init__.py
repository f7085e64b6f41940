"""What `process.supervisor` is made of: the plan, the number and the life of its workers."""
