"""The process side of the worker engine: the fork server, and the worker that it forks.

    notebook kernel --starts--> fork server --forks--> worker, one for each device environment
       └── messages over one socket per worker ───┘

The fork server has imported JAX and the modules that compiles need, and started nothing. It must never lower, compile or
start a client: the children of a process that forks after that hang. It is single-threaded, waits for
the notebook kernel's requests and hands each worker its end of a socket and a file for stdout and stderr.
It imports the modules of a first compile before it is ready, and the rest while it is idle.

Where there is no fork, `spawned` is a worker in a fresh interpreter, on stdin and stdout.

No process outlives the notebook kernel: a worker's stream ends with the notebook kernel, and on Linux the system kills
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
_QUIET_S = 1.0  # leaves both cores of a small machine to the first compile
_BETWEEN_CHORES_S = 0.05

# Imports of a worker's first compile, and of other requests. The fork server uses none of them, and none of them
# starts a client.
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
    "inspector.compilation.cost",  # after the HLO has been sent
    "scipy.linalg",  # provides LAPACK's functions
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
    """Forks workers for the notebook kernel until it ends.

    Requests, one JSON datagram each: `{"do": "fork", "environment": ...}` with two descriptors (the
    worker's socket, its log) answered by `{"pid": ...}`; `{"do": "reap", "pid": ...}` answered by
    `{"status": ..., "known": ...}`, status None while the process is still ending.
    """
    control = socket.socket(fileno=control_fd)
    parent = os.getppid()
    warnings.simplefilter("ignore")  # both Python and JAX warn about forks
    gc.disable()  # collections take a tenth of the time of importing JAX, and find almost nothing
    with without_rocm():  # workers do not compile for its devices
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
    """Runs a worker in a fresh interpreter. The protocol uses stdin and stdout; prints go to stderr."""
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
    """Does the fork server's work for idle times step by step. Yields the time until the next step, in seconds."""
    delete_orphans()
    for name in _LATER:
        yield _BETWEEN_CHORES_S
        _import(name)
    gc.collect()
    gc.freeze()


def _import(name: str) -> None:
    with contextlib.suppress(Exception):  # the request that needs it reports the error
        importlib.import_module(name)


def _abandon(workers: dict[int, Scratch], parent: int) -> None:
    """Ends without the notebook kernel: first the workers, then the directories that they and the kernel leave behind."""
    for pid in workers:
        os.kill(pid, signal.SIGKILL)  # not reaped yet, so the pid is still its own
    for pid, scratch in workers.items():
        os.waitpid(pid, 0)  # otherwise, it could write into the directory during its deletion
        scratch.delete()
    delete_orphans_of(parent, _PARENT_END_LIMIT_S)  # the kernel may have been killed while it ended a worker
    os._exit(0)


def _obey(control: socket.socket, workers: dict[int, Scratch], parent: int) -> None:
    """Serves one request. `workers` has the scratch directories of all workers that are not reaped, by pid."""
    data, descriptors = b"", list[int]()
    with contextlib.suppress(ConnectionError):  # the notebook kernel was killed before it read a reply
        data, descriptors, _, _ = socket.recv_fds(control, _MESSAGE_BYTES, 2)
    if not data:
        _abandon(workers, parent)
    request = json.loads(data)
    if request["do"] == "reap":
        # A worker of an earlier server is not a child of this one.
        known = request["pid"] in workers
        pid, status = os.waitpid(request["pid"], os.WNOHANG) if known else (0, 0)
        if pid:
            workers.pop(pid).release()  # the notebook kernel deletes the directory
        reply: dict[str, Any] = {"status": os.waitstatus_to_exitcode(status) if pid else None, "known": known}
    else:
        try:
            pid, scratch = _fork(control, descriptors, request["environment"], parent)
            workers[pid] = scratch
            reply = {"pid": pid, "scratch": scratch.path}
        except OSError as e:  # no space for a directory or a process; the other workers are unaffected
            reply = {"error": str(e)}
        for descriptor in descriptors:
            os.close(descriptor)
    with contextlib.suppress(ConnectionError):
        control.send(json.dumps(reply).encode())


def _fork(
    control: socket.socket, descriptors: list[int], environment: dict[str, Any], parent: int
) -> tuple[int, Scratch]:
    """Forks a worker. Returns its pid and its scratch directory. Raises OSError when there is no space for either."""
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
        os.setpgid(0, 0)  # so that the compilers that it starts, such as ptxas, can be ended with it
        stream_fd, log_fd = descriptors
        # Or else a compiler that outlives the worker keeps the stream open, and the notebook kernel waits for it.
        os.set_inheritable(stream_fd, False)
        os.dup2(log_fd, 1)
        os.dup2(log_fd, 2)
        stream = socket.socket(fileno=stream_fd)
        _serve(stream.makefile("rb"), stream.makefile("wb"), {**environment, "scratch": scratch.path})
    except BaseException:  # the notebook kernel reads the reason from the log
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    finally:
        os._exit(0)  # must not return into the server's loop or run its atexit handlers


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
    # Ctrl-C in a terminal is for the notebook kernel, and a core file of XLA is of no use.
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
            # A compile that XLA rejected can hold its locks forever (jaxlib 0.12 then hangs in
            # LLVMCommandLineOptionsLock at the next LLVM option), so this process serves no further request.
            refused = reply.get("reply") == "error" and reply["type"] in ("", "CompilationError")
            recycle = limits.reached() or refused
            sender.send({**reply, "recycle": recycle}, reply_blobs)
            del header, blobs, reply, reply_blobs  # frees their memory while idle
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
    """Sends messages from several threads, each as a whole."""

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
            previews: list[EarlyReport] = []

            def take(early: EarlyReport) -> None:
                sender.send(*messages.write_early(early))
                previews.append(early)

            watch = Watch(
                f"{_dump_place(scratch, request)}/hlo", take, lambda cost: sender.send(*messages.write_counted(cost))
            )
            report = server.compile(request, progress, watch=watch)
            sender.send(*messages.write_report(report, *previews))
            return messages.write_executable(
                report.executable
            )  # this takes about the same time as reading all other results
        if header["do"] == "count":
            return counting.serve(blobs)
        run = messages.read_run(header, blobs)
        apply_config(run.compile.config)
        return messages.write_execution(server.run(run, progress))
    except Exception as e:
        return messages.write_error(e)


_other_scratch: list[Scratch] = []  # used when the first one is full; its lock is free when this process ends


def _dump_place(scratch: str, request: Any) -> str:
    """Returns the directory for a compile's dump: the worker's own if it has enough space, otherwise another one.

    libtpu always writes some files to the worker's own directory, and inspector looks for them beside the dump.
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
    """Decides when to replace a worker: executables leave memory maps and heap behind.

    A worker that grows too large during a request ends itself before the system ends the notebook kernel.
    """

    _MAPS_EVERY = 8  # counting maps costs a millisecond
    _LOOK_S = 0.1
    _LARGE_BYTES = 600 << 20
    _LARGE_PART = 3  # this fraction of the limit, if that is less
    _SPARE_S = 30.0  # idle time before free memory is returned to the system: a compile that follows soon would allocate it again

    def __init__(self, environment: dict[str, Any]) -> None:
        self._max_requests = environment["max_requests"]
        self._memory_limit_bytes = environment["memory_limit_bytes"]
        self._max_memory_bytes = environment["max_memory_bytes"]
        self._requests = 0
        self._busy = False
        threading.Thread(target=self._watch, daemon=True).start()

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Enforces the memory limit during a request."""
        self._busy = True
        yield
        self._busy = False

    def _watch(self) -> None:
        with contextlib.suppress(OSError):  # a system without /proc
            while True:
                time.sleep(self._LOOK_S)
                if self._busy and (resident := _resident_bytes()) > self._max_memory_bytes:
                    os.write(2, f"Fatal: {resident} {MEMORY_LIMIT} {self._max_memory_bytes}\n".encode())
                    os.kill(os.getpid(), signal.SIGKILL)

    def reached(self) -> bool:
        """Counts a request. Reports whether the worker should be replaced after it."""
        self._requests += 1
        if self._requests >= self._max_requests:
            return True
        try:
            if _resident_bytes() > self._memory_limit_bytes:
                return True
            return self._requests % self._MAPS_EVERY == 0 and _map_count() > _max_map_count() // 2
        except OSError:  # a system without /proc
            return False

    def spare_s(self) -> float | None:
        """Returns the idle time after which free memory is returned to the system, in seconds; None where there is little."""
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
    """Makes an `exit` during a request end the process at once, such as LLVM's `exit` for an unknown flag.

    Otherwise, destructors wait forever for threads (jaxlib 0.12). Must be called before each request, because
    handlers run in the reverse order of their registration.
    """
    with contextlib.suppress(OSError, AttributeError):  # not in every C library
        c_library = ctypes.CDLL(None)
        c_library.on_exit(c_library["_exit"], None)
