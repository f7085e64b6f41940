"""The error log, opening and reopening of both logs, and programs as logs."""
