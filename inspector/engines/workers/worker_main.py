"""The process side of the worker engine: the fork server, and the worker that it forks.

    notebook kernel --starts--> fork server --forks--> worker, one a device environment
       └── messages over one socket a worker ───┘

The fork server has imported JAX and what compiles need, and started nothing. It must never lower, compile or start a client:
a process that forks after that makes children that hang. It has one thread of its own, waits for
the notebook kernel's requests and hands each worker its end of a socket and a file for stdout and stderr.
It is ready with what a first compile needs, and imports the rest while nobody asks.

Where there is no fork, `spawned` is a worker in a fresh interpreter, on stdin and stdout.

Nobody outlives the notebook kernel: a worker's stream ends with the notebook kernel, and on Linux the system kills
workers with the fork server, which watches its parent.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from inspector._jax.compiling import child_process
from inspector._jax.compiling.importing import without_rocm
from inspector.engines.workers.process_output import MEMORY_LIMIT
from inspector.engines.workers.scratch import Scratch, delete_orphans, delete_orphans_of, has_room
from inspector.support import memory_release

if TYPE_CHECKING:
    from inspector._jax.compiling.report import EarlyReport
    from inspector.engines.workers.wire import Blob

_PARENT_CHECK_S = 0.5
_PARENT_END_LIMIT_S = 30.0
_MESSAGE_BYTES = 1 << 16
_QUIET_S = 1.0  # the first compile has both cores of a small machine
_BETWEEN_CHORES_S = 0.05

# What a worker's first compile would import, and what other requests would: nothing of it is used in the fork
# server, and nothing starts a client.
_FIRST = (
    "jax.numpy",
    "jaxlib.mlir.dialects.mhlo",  # for any module
    "jaxlib.mlir.dialects.builtin",
    "inspector._jax.compiling.compiler",
    "inspector.engines.workers.counting",
    "inspector.engines.workers.messages",
    "inspector.engines.serving",
)
_LATER = (
    "inspector.compilation.cost",  # when the HLO has been told
    "scipy.linalg",  # LAPACK's functions come from there
    "jaxlib.triton.dialect",  # where the CUDA plugin is installed
    "inspector._jax.compiling.ahead_of_time",
    "inspector.engines.dump_products",
)


def main(arguments: list[str]) -> None:
    """Entry point of `process.py`: `fork-server FD` or `worker ENVIRONMENT`."""
    role, argument = arguments
    if role == "fork-server":
        fork_server(int(argument))
    else:
        spawned(json.loads(argument))


def fork_server(control_fd: int) -> None:
    """Forks workers for the notebook kernel until the notebook kernel is gone.

    Requests, one JSON datagram each: `{"do": "fork", "environment": ...}` with two descriptors (the
    worker's socket, its log) answered by `{"pid": ...}`; `{"do": "reap", "pid": ...}` answered by
    `{"status": ..., "known": ...}`, status None while the process still ends.
    """
    control = socket.socket(fileno=control_fd)
    parent = os.getppid()
    warnings.simplefilter("ignore")  # both Python and JAX warn of a fork
    gc.disable()  # looking for garbage takes a tenth of importing JAX, and finds next to none
    with without_rocm():  # whose devices are not compiled for in workers
        for name in _FIRST:
            _import(name)
    gc.freeze()
    control.send(json.dumps({"ready": True}).encode())
    workers: dict[int, Scratch] = {}
    chores = _chores()
    idle_s = _QUIET_S
    while True:
        readable, _, _ = select.select([control], [], [], idle_s)
        if os.getppid() != parent:
            _abandon(workers, parent)
        if readable:
            _obey(control, workers, parent)
        else:
            idle_s = next(chores, _PARENT_CHECK_S)


def spawned(environment: dict[str, Any]) -> None:
    """A worker in a fresh interpreter. The protocol takes stdin and stdout; prints go to stderr."""
    reader = os.fdopen(os.dup(0), "rb")
    writer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    delete_orphans()
    scratch = environment["scratch"]
    threading.Thread(target=_end_with_parent, args=(os.getppid(), scratch), daemon=True).start()
    _serve(reader, writer, environment)
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(0)


def _chores() -> Iterator[float]:
    """What the fork server does while nobody asks, a piece at each step; how long to wait for a request after it."""
    delete_orphans()
    for name in _LATER:
        yield _BETWEEN_CHORES_S
        _import(name)
    gc.collect()
    gc.freeze()


def _import(name: str) -> None:
    with contextlib.suppress(Exception):  # whoever needs it says what is wrong; it costs time, and not the server
        importlib.import_module(name)


def _abandon(workers: dict[int, Scratch], parent: int) -> None:
    """Ends without the notebook kernel: its workers first, then what they and the notebook kernel leave behind."""
    for pid in workers:
        os.kill(pid, signal.SIGKILL)  # not reaped yet, so the pid is still its own
    for pid, scratch in workers.items():
        os.waitpid(pid, 0)  # or it would write into what is being deleted
        scratch.delete()
    delete_orphans_of(parent, _PARENT_END_LIMIT_S)  # it was killed in the middle of ending a worker, perhaps
    os._exit(0)


def _obey(control: socket.socket, workers: dict[int, Scratch], parent: int) -> None:
    """Serves one request; `workers` are the pids that are not reaped yet, with their scratch directories."""
    data, descriptors = b"", list[int]()
    with contextlib.suppress(ConnectionError):  # of a notebook kernel that was killed before it read a reply
        data, descriptors, _, _ = socket.recv_fds(control, _MESSAGE_BYTES, 2)
    if not data:
        _abandon(workers, parent)
    request = json.loads(data)
    if request["do"] == "reap":
        # A worker of a server before this one is not this one's child.
        known = request["pid"] in workers
        pid, status = os.waitpid(request["pid"], os.WNOHANG) if known else (0, 0)
        if pid:
            workers.pop(pid).release()  # the notebook kernel deletes it
        reply: dict[str, Any] = {"status": os.waitstatus_to_exitcode(status) if pid else None, "known": known}
    else:
        try:
            pid, scratch = _fork(control, descriptors, request["environment"], parent)
            workers[pid] = scratch
            reply = {"pid": pid, "scratch": scratch.path}
        except OSError as e:  # no room for a directory or a process: no reason to lose the workers that there are
            reply = {"error": str(e)}
        for descriptor in descriptors:
            os.close(descriptor)
    with contextlib.suppress(ConnectionError):
        control.send(json.dumps(reply).encode())


def _fork(
    control: socket.socket, descriptors: list[int], environment: dict[str, Any], parent: int
) -> tuple[int, Scratch]:
    """A new worker's pid, and its scratch directory. Raises OSError when there is no room for either."""
    server = os.getpid()
    scratch = Scratch(parent)
    try:
        pid = os.fork()
    except OSError:
        scratch.delete()
        raise
    if pid:
        return pid, scratch
    try:
        control.close()
        child_process.die_with(server)
        stream_fd, log_fd = descriptors
        os.dup2(log_fd, 1)
        os.dup2(log_fd, 2)
        stream = socket.socket(fileno=stream_fd)
        _serve(stream.makefile("rb"), stream.makefile("wb"), {**environment, "scratch": scratch.path})
    except BaseException:  # for the log, from which the notebook kernel reads why
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    finally:
        os._exit(0)  # never back into the server's loop, no atexit handlers of the server


def _end_with_parent(parent: int, scratch: str) -> None:
    while os.getppid() == parent:
        time.sleep(_PARENT_CHECK_S)
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(0)


def _serve(reader: BinaryIO, writer: BinaryIO, environment: dict[str, Any]) -> None:
    """Answers requests until the notebook kernel closes the stream."""
    from inspector.engines.workers.messages import write_error
    from inspector.engines.workers.wire import read_message, write_message

    gc.enable()
    # Ctrl-C in a terminal is the notebook kernel's, and a core file of XLA nobody's.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    child_process.leave_no_core_file()
    child_process.go_first()
    try:
        server = _start(environment)
    except Exception as e:
        write_message(writer, *write_error(e))
        return
    write_message(writer, {"reply": "ready"})
    limits = _Limits(environment)
    sender = _Sender(writer)
    spare: threading.Timer | None = None
    with contextlib.suppress(EOFError, OSError):
        while True:
            header, blobs = read_message(reader)
            if spare is not None:
                spare.cancel()
            _exit_at_once()
            sender.send({"taken": True})
            with limits.watched():
                reply, reply_blobs = _answer(server, sender, header, blobs, environment["scratch"])
            # A compile that XLA refused half-way can hold its locks for ever (jaxlib 0.12 then hangs in
            # LLVMCommandLineOptionsLock at the next LLVM option), so nothing more is asked of this process.
            refused = reply.get("reply") == "error" and reply["type"] in ("", "CompilationError")
            recycle = limits.reached() or refused
            sender.send({**reply, "recycle": recycle}, reply_blobs)
            del header, blobs, reply, reply_blobs  # not to hold them while idle
            spare_s = None if recycle else limits.spare_s()
            if spare_s is not None:
                gc.collect()
                spare = memory_release.give_back_in(spare_s)


def _start(environment: dict[str, Any]) -> Any:
    import jax

    from inspector._jax.compiling import ahead_of_time
    from inspector._jax.compiling.attached_devices import attach_cpus
    from inspector._jax.compiling.compiler import Compiler
    from inspector.engines.serving import Server
    from inspector.platforms.platform import SCRATCH

    os.environ.update(environment["variables"])
    os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *environment["xla_flags"]]).strip()
    attach_cpus(environment["device_count"])
    jax.config.update("jax_enable_compilation_cache", False)
    if environment["platform"] == "cpu":
        compiler = Compiler("cpu", environment["device_count"])
        return Server(lambda _: compiler, max_executables=environment["max_executables"])
    init_args = [argument.replace(SCRATCH, environment["scratch"]) for argument in environment["init_args"]]
    ahead_of_time.prepare_process(environment["platform"], init_args)
    return Server(functools.cache(ahead_of_time.AbsentCompiler), max_executables=environment["max_executables"])


class _Sender:
    """Messages from several threads, each whole."""

    def __init__(self, writer: BinaryIO) -> None:
        self._writer = writer
        self._lock = threading.Lock()

    def send(self, header: dict[str, Any], blobs: Sequence[Blob] = ()) -> None:
        from inspector.engines.workers.wire import write_message

        with self._lock:
            write_message(self._writer, header, blobs)


def _answer(server: Any, sender: _Sender, header: dict[str, Any], blobs: list[bytes], scratch: str) -> Any:
    from inspector._jax.compiling.compiler import Watch
    from inspector._jax.compiling.configuration import apply_config
    from inspector.engines.workers import counting, messages

    def progress(stage: str) -> None:
        sender.send({"stage": stage})

    try:
        if header["do"] == "compile":
            request = messages.read_compile(header, blobs)
            apply_config(request.config)
            told: list[EarlyReport] = []

            def take(early: EarlyReport) -> None:
                sender.send(*messages.write_early(early))
                told.append(early)

            watch = Watch(
                f"{_dump_place(scratch, request)}/hlo", take, lambda cost: sender.send(*messages.write_counted(cost))
            )
            report = server.compile(request, progress, watch=watch)
            sender.send(*messages.write_report(report, *told))
            return messages.write_executable(report.executable)  # which takes as long again as all else that is read
        if header["do"] == "count":
            return counting.serve(blobs)
        run = messages.read_run(header, blobs)
        apply_config(run.compile.config)
        return messages.write_execution(server.run(run, progress))
    except Exception as e:
        return messages.write_error(e)


_other_scratch: list[Scratch] = []  # once the first has no room; held, and an orphan when this process ends


def _dump_place(scratch: str, request: Any) -> str:
    """Where a compile may dump: the worker's directory while that has room, else another one.

    What libtpu dumps by itself goes to the worker's directory whatever we say, and is looked for beside the dump.
    """
    from inspector.engines.serving import room_bytes

    room = room_bytes(request)
    if has_room(scratch, room) or (request.platform != "cpu" and "assembly" in request.products):
        return scratch
    if not _other_scratch:
        made = Scratch(os.getppid(), room)
        _other_scratch.append(made)
    return _other_scratch[0].path


class _Limits:
    """When a worker has served enough: executables leave memory maps and heap behind.

    One that grows too large in the middle of a request ends itself, before the system ends the notebook kernel.
    """

    _MAPS_EVERY = 8  # counting maps costs a millisecond
    _LOOK_S = 0.1
    _LARGE_BYTES = 600 << 20
    _LARGE_PART = 3  # of the limit, where that is less
    _SPARE_S = (
        30.0  # until memory that is free is given back: a compile that follows soon takes it again, which costs time
    )

    def __init__(self, environment: dict[str, Any]) -> None:
        self._max_requests = environment["max_requests"]
        self._memory_limit_bytes = environment["memory_limit_bytes"]
        self._max_memory_bytes = environment["max_memory_bytes"]
        self._requests = 0
        self._busy = False
        threading.Thread(target=self._watch, daemon=True).start()

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Around each request."""
        self._busy = True
        yield
        self._busy = False

    def _watch(self) -> None:
        with contextlib.suppress(OSError):  # no /proc here
            while True:
                time.sleep(self._LOOK_S)
                if self._busy and (resident := _resident_bytes()) > self._max_memory_bytes:
                    os.write(2, f"Fatal: {resident} {MEMORY_LIMIT} {self._max_memory_bytes}\n".encode())
                    os.kill(os.getpid(), signal.SIGKILL)

    def reached(self) -> bool:
        """After each request."""
        self._requests += 1
        if self._requests >= self._max_requests:
            return True
        try:
            if _resident_bytes() > self._memory_limit_bytes:
                return True
            return self._requests % self._MAPS_EVERY == 0 and _map_count() > _max_map_count() // 2
        except OSError:  # no /proc here
            return False

    def spare_s(self) -> float | None:
        """Seconds without a request after which free memory is given back; None where there is little."""
        try:
            resident, part = _resident_bytes(), self._memory_limit_bytes // self._LARGE_PART
        except OSError:
            return None
        if resident > part:
            return 0.0
        return self._SPARE_S if resident > self._LARGE_BYTES else None


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _map_count() -> int:
    return Path("/proc/self/maps").read_bytes().count(b"\n")


def _max_map_count() -> int:
    return int(Path("/proc/sys/vm/max_map_count").read_text())


def _exit_at_once() -> None:
    """Makes an `exit` in the middle of a request, such as LLVM's for a flag it does not know, end the process.

    Otherwise destructors wait forever for threads (jaxlib 0.12). Before each request, because what was
    registered last is called first.
    """
    with contextlib.suppress(OSError, AttributeError):  # not in every C library
        c_library = ctypes.CDLL(None)
        c_library.on_exit(c_library["_exit"], None)
