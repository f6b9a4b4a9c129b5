"""The process of one tool call: runs a command with the request from stdin, and writes one line of JSON to stdout.

The user's code runs here. It reads an empty stdin, and what it prints goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any, BinaryIO

import click

from inspector.cli.commands import failure
from inspector.cli.mcp.answers import Page, page_of
from inspector.cli.mcp.tools import tool_named
from inspector.cli.output import collected
from inspector.errors import OptionError


def main() -> None:
    """Answers the request on stdin."""
    reply, requests = os.fdopen(os.dup(1), "wb"), os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdout = sys.stderr
    request = json.loads(requests.readline())
    threading.Thread(target=_end_with, args=(requests,), daemon=True).start()
    _protect_the_server()
    reply.write(json.dumps(_result(request)).encode() + b"\n")
    reply.flush()


def _end_with(server: BinaryIO) -> None:
    """Ends this process when the server has ended."""
    server.read()
    os._exit(1)


def _protect_the_server() -> None:
    from inspector._jax.compiling import child_process

    child_process.die_with(os.getppid())
    child_process.leave_no_core_file()
    child_process.go_first()


def _result(request: dict[str, Any]) -> dict[str, Any]:
    """Runs the command of a request; returns a page of its result, or the error."""
    try:
        return page_of(_run(request), Page(**request["page"]))
    except click.ClickException as error:
        return {"error": error.format_message()}
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        if isinstance(error, SystemExit):
            return {
                "error": f"The program ended Python with SystemExit({error.code!r}) when it was imported or traced."
            }
        return {"error": failure(error)[0] if isinstance(error, Exception) else "It was interrupted."}


def _run(request: dict[str, Any]) -> Any:
    tool = tool_named(request["tool"])
    for text in tool.flag_texts(request["arguments"]):
        _check_flags(text, request["root"])
    with collected() as results:
        try:
            tool.command.main(
                request["command_line"], prog_name=f"inspector {tool.command.name}", standalone_mode=False
            )
        except SystemExit:
            if not results:
                raise
    return results[0] if len(results) == 1 else results


def _check_flags(text: str, root: str) -> None:
    """Refuses compiler options that could make a compiler access files outside of the root folder.

    Raises:
      OptionError: such an option, or one that is not valid.
    """
    from inspector.compilation.options.options import Options
    from inspector.toolchain.untrusted import check_untrusted

    options = Options.parse(text, read_file=False)
    try:
        check_untrusted(options.as_dict(), str(Path(root)))
    except OptionError as error:
        if type(error) is not OptionError:
            raise
        raise OptionError(
            f"{error} Tools may not use it; a person may, with `inspector` on the command line."
        ) from None
