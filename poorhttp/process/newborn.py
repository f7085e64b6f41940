"""A worker from its fork to its end: what it drops of its supervisor, and what it tells where it cannot begin.

Knows the order of a worker's life. Does not know when one is started (`process.plan`).
"""

from __future__ import annotations

from poorhttp.app import loader
from poorhttp.errors import PoorhttpError, shortage
from poorhttp.process import birth, messages, worker
from poorhttp.process.fork_hooks import hold_signals
from poorhttp.stdlib import os, tell_of_fork
from poorhttp.system import signals, timing
from poorhttp.system.exits import end_with

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from socket import socket
    from typing import Any, NoReturn

    from poorhttp.config.config import Config
    from poorhttp.logs.log import ErrorLog
    from poorhttp.process.worker import Application
    from poorhttp.status.scoreboard import Row


def work(
    load: Callable[[], Application],
    listeners: Sequence[socket],
    config: Config,
    logs: tuple[ErrorLog, int],
    pipes: tuple[int, int],
    supervisor: int,
    mask: Any,
    forget: Callable[[], None],
    connections: Sequence[tuple[int, int]],
    row: Row | None,
    countdown: int | None,
) -> NoReturn:
    """Be a worker to the end of this process. Parameters as of `worker.serve`, but for these.

    load: gives the application; what it raises ends the worker. pipes: control and report pipe. supervisor: its process
    number. mask: the signals that it had blocked. forget: drops what makes a supervisor.
    """
    control, report = pipes
    error_log, access_log = logs

    def ready() -> None:
        end_with(None)  # the control pipe tells from here on, and leaves a moment for what is in flight
        birth.tell(report, messages.READY)

    code = 1
    try:
        error_log.wait(True)
        forget()
        tell_of_fork()
        hold_signals(mask)
        app = load()
        config = loader.suited(config, lambda text: error_log.write("W", text))
        code = worker.serve(
            app,
            listeners,
            config,
            error_log,
            access_log,
            control,
            report,
            ready=ready,
            connections=connections,
            row=row,
            countdown=countdown,
        )
    except SystemExit:
        code = 1  # the reason was logged
    except Exception as error:
        code = _tell_fault(error, error_log, report)
    except BaseException as error:
        error_log.exception(error, "-", f"worker {os.getpid()}")
    finally:
        seconds = timing.LATE if os.getppid() != supervisor else config.graceful_timeout
        end_with(os.getppid())
        signals.leave(code, error_log, seconds)


def _tell_fault(error: Exception, error_log: ErrorLog, report: int) -> int:
    """Tell why this worker cannot begin; return its exit code."""
    fault = error if isinstance(error, PoorhttpError) else shortage(error)
    if fault is None:
        error_log.exception(error, "-", f"worker {os.getpid()}")
        return 1
    birth.tell(report, messages.FAILED + birth.fault(fault))
    return fault.exit_code
