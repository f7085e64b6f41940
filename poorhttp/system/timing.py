"""How long things may take while processes start, are replaced and end: seconds, one table for the whole server.

Knows no process and no clock. Times that are settings are not here, nor those of one policy alone, such as
`process.workers.scale`. The engine declares FAST, DRAIN, REPEAT and STANDSTILL again; a test compares them.
Users read the attributes of this module when they need them, so that a test can shorten one.
"""

from __future__ import annotations

LOADING = 60.0
"""For loading the application: in the trial of a reload, in a check and at a start in the background."""

CALLING = 5.0
"""Beyond `request_timeout`, or LOADING where there is none, for the request that new code is asked in a check."""

STOP_WHILE_LOADING = 3.0
"""For which a stop waits for what is being loaded, since clients wait already."""

FAST = 1.0
"""For requests in flight after SIGINT."""

DRAIN = 1.0
"""For a process with a successor to send away the clients that keep their connections; then it stops."""

LATE = 0.8
"""For an application to return after its time is over (`graceful_timeout`, or that of the engine); then the process
leaves without it. Shorter than KILL."""

KILL = 1.0
"""Beyond its deadline for a worker to leave by itself; then the supervisor kills it."""

REPEAT = 0.3
"""Within which a second signal to stop counts as the first one sent twice: process managers signal a process and then
its whole group."""

STANDSTILL = 1.0
"""A process that wakes up so much later than it wanted to was stopped (SIGSTOP), and its deadlines do not count."""

SHORTEST_END = 0.1
"""For the application at its end where `graceful_timeout` is less."""

YOUNG = 1.0
"""A worker that dies in this time, or before it serves, has failed to start; one that lived longer shows that starting
works."""

FIRST_BACK_OFF, LONGEST_BACK_OFF = 0.1, 5.0
"""Between two forks after a worker died young: doubled by each that does so again."""

PACE = 0.1
"""Between two forks of workers that take the place of others which still serve."""

SOON = 0.5
"""In which a worker that drains is usually gone; the next one is started beside one that takes longer."""

FIRST_RETRY, LONGEST_RETRY = 1.0, 30.0
"""Before code that the trial could load and the new program could not is loaded again: doubled each time."""

STUCK_RETRY = 30.0
"""Between two tries to start anew a program in which a call does not return."""

CHILD_EXIT = 10.0
"""For the calls of `child_exit` in one child."""

LAST_CHILD_EXIT = 2.0
"""For all calls of `child_exit` that are left when the supervisor ends or becomes the new program."""

DYING = 1.0
"""For a killed child to be gone: one that waits for a file server may take longer, and is not waited for."""

CHILD_POLL = 0.02
"""Between two looks whether a child has ended, where nothing else tells it."""
