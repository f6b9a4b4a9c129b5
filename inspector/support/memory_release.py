"""Returns freed memory to the operating system, which the C library would otherwise keep."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading

_SOON_S = 2.0


def give_back() -> None:
    """Returns freed memory to the system (Linux with glibc only). Takes milliseconds per free GB."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)


def give_back_soon() -> None:
    """Returns freed memory to the system after 2 s, when callers' variables no longer keep parts of it alive."""
    give_back_in(_SOON_S)


def give_back_in(wait_s: float) -> threading.Timer:
    """Returns freed memory to the system after some seconds, unless the returned timer is canceled."""
    timer = threading.Timer(wait_s, give_back)
    timer.daemon = True
    timer.start()
    return timer
