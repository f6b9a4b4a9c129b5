"""A notebook kernel as Jupyter starts it, without a browser."""

from __future__ import annotations

import ast
import dataclasses
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jupyter_client.manager import KernelManager, start_new_kernel

ROOT = Path(__file__).resolve().parent.parent.parent
LIMIT_S = 120.0


@dataclasses.dataclass
class Kernel:
    """A running kernel.

    Attributes:
      manager, client: Jupyter's.
      displays: the latest bundle by display id.
    """

    manager: KernelManager
    client: Any
    displays: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)

    def run(self, code: str, cell: str | None = None, *, allow_stdin: bool = True) -> list[dict[str, Any]]:
        """Runs a cell and gives its outputs.

        Args:
          code: its text.
          cell: its id, which a front end may send.
          allow_stdin: whether somebody sits there.

        Raises:
          AssertionError: the cell raised.
        """
        content = {
            "code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": allow_stdin,
            "stop_on_error": True,
        }  # fmt: skip
        message = self.client.session.msg("execute_request", content)
        message["metadata"] = {} if cell is None else {"cellId": cell}
        self.client.shell_channel.send(message)
        outputs = []
        while True:
            reply = self.client.get_iopub_msg(timeout=LIMIT_S)
            self._note(reply)
            if reply["parent_header"].get("msg_id") != message["header"]["msg_id"]:
                continue
            assert reply["msg_type"] != "error", "\n".join(reply["content"]["traceback"])
            if reply["msg_type"] in ("execute_result", "display_data", "stream"):
                outputs.append({"type": reply["msg_type"], **reply["content"]})
            if reply["msg_type"] == "status" and reply["content"]["execution_state"] == "idle":
                return outputs

    def value(self, expression: str) -> Any:
        """Returns the value of an expression that is a literal, without a place in `Out`."""
        # A busy kernel may send the text in several messages.
        printed = "".join(
            o["text"]
            for o in self.run(f"print({expression})", "value")
            if o["type"] == "stream" and o["name"] == "stdout"
        )
        try:
            return ast.literal_eval(printed.strip())
        except (ValueError, SyntaxError):
            return printed.strip()

    def updates(self, seconds: float = 0.5) -> None:
        """Reads what the kernel publishes by itself, until it is silent for so long."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                self._note(self.client.get_iopub_msg(timeout=left))
            except Exception:  # queue.Empty, of whichever kind the client raises
                return

    def _note(self, message: Mapping[str, Any]) -> None:
        name = message["content"].get("transient", {}).get("display_id")
        if name is not None:
            self.displays[name] = message["content"]["data"]


def started() -> Iterator[Kernel]:
    """A kernel that ends with the generator."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    manager, client = start_new_kernel(kernel_name="python3", env={**os.environ, "PYTHONPATH": path})
    try:
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
