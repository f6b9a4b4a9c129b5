"""Memory that is free again goes back to the system, where the C library would keep it for later."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading

_SOON_S = 2.0


def give_back() -> None:
    """Gives back what is free (Linux with glibc); elsewhere it stays. Takes milliseconds for each free GB."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)


def give_back_soon() -> None:
    """Gives back a moment later, when whoever still held a part has let go of it, such as the variable of a caller."""
    give_back_in(_SOON_S)


def give_back_in(wait_s: float) -> threading.Timer:
    """Gives back so many seconds later, unless what is returned is cancelled before."""
    timer = threading.Timer(wait_s, give_back)
    timer.daemon = True
    timer.start()
    return timer
