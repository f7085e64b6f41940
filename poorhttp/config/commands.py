"""The words of the command line that are no settings: commands, their options and the short flags. Data only."""

from __future__ import annotations

from poorhttp.config.settings import SETTINGS
from poorhttp.config.units import Switch

COMMANDS = {
    "help": "show this help",
    "version": "show the version",
    "check_config": "check the settings and load APP, then print ok or the fault",
    "print_config": "print each setting with its value and the source of the value",
    "print_lighttpd": "print a configuration of lighttpd as the proxy in front",
    "print_nginx": "print a configuration of nginx as the proxy in front",
    "print_haproxy": "print a configuration of HAProxy as the proxy in front",
    "dump_config": "print an ini file with every setting, as given or by default",
}
"""Commands that are written as flags."""

ABOUT = ("help", "version")
"""Those of them that are carried out whatever else is on the command line."""

ACTIONS = {
    "start": "serve in the background; returns when the server answers",
    "stop": "finish the requests in flight, then end",
    "restart": "try the new code and configuration, then stop and start",
    "reload": "try the new code and configuration, then serve with them",
    "status": "show since when the server runs, its workers, their requests and memory",
    "logrotate": "open the log files again, after they were renamed",
}
"""Commands about the server that a pidfile names."""

WITH_WAIT = ("start", "restart", "reload")
"""Actions that load the application, and so may take long."""

PURGE = ("sessions", "purge")
"""The command without a server, of two words; an address, or the variable below, follows."""

PURGING = "remove the sessions that have expired"

STORE_VARIABLE = "SESSION_STORE"

DEV = "dev"
MAKING = {
    "init": "write a first dispatch_table.py and poorhttp.ini into a directory",
    DEV: "serve on this machine alone, load again after each save, show errors in the browser",
    "check": "check settings, addresses and logs, load APP, send it GET /, check its answer by PEP 3333",
}
"""Commands while the program is being written."""

DEFAULTS_OF_DEV = {"request_timeout": 0.0, "slow_request": 0.0, "graceful_timeout": 5.0}
"""Defaults of `dev`: a debugger waits for its user without a limit."""

SWITCHES_OF_DEV = ("autoreload", "debug")
"""Switches that `dev` sets with the precedence of a flag, so that an ini file for production can be used with it."""

COMMAND_OPTIONS = {
    "json": ("", "status: print JSON"),
    "watch": ("", "status: show it again each second, until q is pressed"),
    "wait": ("SECONDS", "start, restart, reload: give up after this time [60]"),
    "public": ("", "dev, --reload --debug: allow an address that others can reach"),
    "live": ("", "dev, --reload: browsers load a page again after each save, style sheets in place"),
}
"""Options of commands: placeholder of the value ("" where there is none), and the help."""

ALIASES = {"reload": "autoreload", "no_reload": "no_autoreload"}
SWITCHES = [name for name, each in SETTINGS.items() if isinstance(each.unit, Switch)]
FLAGS = ["config", *COMMAND_OPTIONS, *COMMANDS, *SETTINGS, *(f"no_{name}" for name in SWITCHES), *ALIASES]
"""Every long flag, with `_` for `-`."""

SHORT = {"c": "config", "h": "help", "v": "version"} | {
    each.short: name for name, each in SETTINGS.items() if each.short
}
"""Letter of a short flag -> its long one."""


def dashed(name: str) -> str:
    """Return the flag of a name: `--log-level` of `log_level`."""
    return "--" + name.replace("_", "-")
