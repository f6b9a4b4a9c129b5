"""`Recording`: a profile of the executions in a context, as the bytes of an `XSpace`.

Uses the session that `jax.profiler.start_trace` uses, because that function writes a folder of files. The session has the
same form in all supported versions of JAX.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from jaxlib import _profiler  # type: ignore[attr-defined]

from inspector.errors import ExecutionError

MOST_BYTES = 256 << 20
"""The largest profile of a run, which a worker sends as one message."""

_HOST_LEVEL = 1  # has the events of kernels; higher levels add details of the runtime, which take time
_BUSY = (
    "The program ran, but its profile could not be recorded: {}. A process can record one profile at a time. Stop the running"
    " one (jax.profiler.stop_trace()) and try again."
)


class Recording:
    """A context that records a profile.

    Attributes:
      xspace: the profile; b"" until the context ends.
    """

    def __init__(self) -> None:
        """Creates the context without starting the profiler."""
        self.xspace = b""
        self._session: Any = None

    def __enter__(self) -> Recording:
        """Starts the profiler.

        Raises:
          ExecutionError: it cannot start, for example because it is running.
        """
        options = _profiler.ProfileOptions()
        options.host_tracer_level = _HOST_LEVEL
        options.python_tracer_level = 0
        options.enable_hlo_proto = True
        options.raise_error_on_start_failure = True
        try:
            self._session = _profiler.ProfilerSession(options)
        except Exception as e:
            raise ExecutionError(_BUSY.format(e)) from e
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Ends the profile.

        Raises:
          ExecutionError: there is none, or it is too large.
        """
        try:
            self.xspace = self._session.stop()
        except Exception as e:
            if error is None:
                raise ExecutionError(_BUSY.format(e)) from e
            return
        finally:
            self._session = None
        if error is None and len(self.xspace) > MOST_BYTES:
            size, self.xspace = len(self.xspace), b""
            raise ExecutionError(
                f"The profile has {size >> 20:,} MiB; the limit is {MOST_BYTES >> 20} MiB. Profile fewer executions (repeat=...)."
            )
