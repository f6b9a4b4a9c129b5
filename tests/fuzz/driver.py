"""Drives a kernel through hostile requests, keeps the outcomes, and counts what must not happen.

    driver ──numbers──▶ kernel ──requests──▶ fork server, workers
       └── state file ◀── outcomes

The state file has a JSON line for each request, so a run that was stopped goes on where it was.
Every some hundred requests the kernel is ended, in turn by SIGKILL in mid-request and politely, and
then nothing of it may be left: no process and no directory.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.conftest import ROOT
from tests.fuzz.kernel import LOST_AFTER_S

OUTCOMES = ("ok", "refused before", "refused by XLA", "crashed", "timed out")
_KERNEL_LIFE = 500
_START_LIMIT_S = 180.0
_GONE_LIMIT_S = 20.0
_DYING_S = 5.0
_TAG = "INSPECTOR_FUZZ_KERNEL"


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """The work: numbers below `requests` of `seed` that `state` does not have yet, for `minutes` at most."""

    seed: int
    requests: int
    minutes: float
    state: Path
    kernel_life: int = _KERNEL_LIFE


class StateError(Exception):
    """The state file belongs to another run."""


def fuzz(settings: Settings) -> list[dict[str, Any]]:
    """Runs, and returns every outcome of the state file.

    Raises:
      StateError: the file has another seed's outcomes, or another jaxlib's.
    """
    known = _read(settings)
    until = time.monotonic() + 60 * settings.minutes
    todo = iter([i for i in range(settings.requests) if i not in known])
    number, ends = next(todo, None), 0
    with settings.state.open("a") as state:
        while number is not None and time.monotonic() < until:
            with _Kernel(settings) as kernel:
                for _ in range(settings.kernel_life):
                    outcome = kernel.ask(number)
                    state.write(json.dumps({**outcome, "seed": settings.seed, "jaxlib": kernel.jaxlib}) + "\n")
                    state.flush()
                    number = next(todo, None)
                    if not kernel.lives() or number is None or time.monotonic() >= until:
                        break
                left = kernel.kill(number) if ends % 2 == 0 and number is not None else kernel.close()
                ends += 1
            how = "killed" if left.killed else "closed"
            end = {"index": -1, "kind": f"kernel {how}", "outcome": "ok", "seconds": 0.0, "bad": left.text, "error": "", "text": "", "asked": ""}  # fmt: skip
            state.write(json.dumps({**end, "seed": settings.seed, "jaxlib": kernel.jaxlib}) + "\n")
    return [*_lines(settings.state)]


@dataclasses.dataclass(frozen=True, slots=True)
class _Left:
    killed: bool
    text: str


class _Kernel:
    def __init__(self, settings: Settings) -> None:
        self._tag = uuid.uuid4().hex
        self._directory = tempfile.TemporaryDirectory(prefix="fuzz-", ignore_cleanup_errors=True)
        directory = Path(self._directory.name)
        (directory / "tmp").mkdir()
        self._log = (directory / "kernel.log").open("w+b")
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        flags = [f for f in os.environ.get("XLA_FLAGS", "").split() if "device_count" not in f]
        environ = {
            **os.environ, "PYTHONPATH": path, "TMPDIR": str(directory / "tmp"), _TAG: self._tag,
            "JAX_PLATFORMS": "cpu", "XLA_FLAGS": " ".join(flags), "PYTHONWARNINGS": "ignore",
        }  # fmt: skip
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.kernel", str(settings.seed)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, cwd=directory, env=environ,
        )  # fmt: skip
        ready = self._receive(_START_LIMIT_S)
        if ready is None:
            raise RuntimeError(f"The kernel did not start: {self._said()}")
        self.jaxlib: str = ready["jaxlib"]

    def __enter__(self) -> _Kernel:
        return self

    def __exit__(self, *_: object) -> None:
        self._popen.kill()
        self._popen.wait()
        for stream in (self._popen.stdin, self._popen.stdout, self._log):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        self._directory.cleanup()

    def lives(self) -> bool:
        return self._popen.poll() is None

    def ask(self, number: int) -> dict[str, Any]:
        """The outcome of a request, also when the kernel dies of it or says nothing."""
        self._send(number)
        answer = self._receive(3 * LOST_AFTER_S)
        if answer is not None:
            return answer
        try:
            bad = f"the kernel died (status {self._popen.wait(_DYING_S)})"
        except subprocess.TimeoutExpired:
            self._popen.kill()
            bad = "the kernel hung"
        return {
            "index": number, "kind": "?", "outcome": "kernel death", "seconds": 0.0, "bad": bad,
            "error": "", "text": self._said()[-2000:], "asked": "",
        }  # fmt: skip

    def close(self) -> _Left:
        """Ends it politely; what is left of it."""
        assert self._popen.stdin is not None
        try:
            self._popen.stdin.close()
            self._popen.wait(_START_LIMIT_S)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._popen.kill()
        return _Left(False, self._leavings())

    def kill(self, number: int) -> _Left:
        """Kills it in the middle of a request; what is left of it."""
        self._send(number)
        time.sleep(0.02)
        self._popen.kill()
        return _Left(True, self._leavings())

    def _send(self, number: int) -> None:
        assert self._popen.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._popen.stdin.write(f"{number}\n".encode())
            self._popen.stdin.flush()

    def _receive(self, limit_s: float) -> dict[str, Any] | None:
        assert self._popen.stdout is not None
        readable, _, _ = select.select([self._popen.stdout], [], [], limit_s)
        line = self._popen.stdout.readline() if readable else b""
        if line and not line.endswith(b"\n"):
            return None
        answer: dict[str, Any] | None = json.loads(line) if line else None
        return answer

    def _leavings(self) -> str:
        self._popen.wait()
        until = time.monotonic() + _GONE_LIMIT_S
        while (found := [*self._processes(), *self._directories()]) and time.monotonic() < until:
            time.sleep(0.05)
        for word in found:
            if word.startswith("process "):
                os.kill(int(word.split()[1]), signal.SIGKILL)
        return f"left: {', '.join(found)}" if found else ""

    def _processes(self) -> Iterator[str]:
        tag = f"{_TAG}={self._tag}".encode()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    if tag in (entry / "environ").read_bytes():
                        yield f"process {entry.name} {(entry / 'cmdline').read_bytes()[-60:]!r}"
                except OSError:
                    continue

    def _directories(self) -> Iterator[str]:
        for place in ("/dev/shm", Path(self._directory.name) / "tmp"):
            yield from map(str, Path(place).glob(f"inspector-{self._popen.pid}-*"))

    def _said(self) -> str:
        self._log.seek(0)
        return self._log.read().decode(errors="replace")


def summary(outcomes: list[dict[str, Any]]) -> str:
    """A table by kind, the rate, and everything that must not have happened."""
    requests = [o for o in outcomes if o["index"] >= 0]
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for outcome in requests:
        counts[outcome["kind"]][outcome["outcome"]] += 1
    columns = [*OUTCOMES, *sorted({o["outcome"] for o in requests} - set(OUTCOMES))]
    lines = [f"{'kind':<24}{'requests':>10}" + "".join(f"{c:>16}" for c in columns)]
    for kind, count in sorted(counts.items()):
        lines.append(f"{kind:<24}{sum(count.values()):>10}" + "".join(f"{count[c]:>16}" for c in columns))
    total = collections.Counter(o["outcome"] for o in requests)
    lines.append(f"{'all':<24}{len(requests):>10}" + "".join(f"{total[c]:>16}" for c in columns))
    targets: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for outcome in requests:
        targets[outcome.get("target", "?")][outcome["outcome"]] += 1
    for target, count in sorted(targets.items()):
        lines.append(f"{target:<24}{sum(count.values()):>10}" + "".join(f"{count[c]:>16}" for c in columns))
    seconds = sum(o["seconds"] for o in requests)
    ends = collections.Counter(o["kind"] for o in outcomes if o["index"] < 0)
    lines.append(
        f"{len(requests)} requests in {seconds:.0f} s, {len(requests) / max(seconds, 1e-9):.1f} a second; jaxlib"
        f" {', '.join(sorted({o['jaxlib'] for o in outcomes}))}; {', '.join(f'{n} times {k}' for k, n in ends.items())}"
    )
    bad = [o for o in outcomes if o["bad"]]
    deaths = sum(o["outcome"] == "kernel death" for o in bad)
    lost = sum(o["outcome"] == "lost" for o in bad)
    left = sum(o["index"] < 0 for o in bad)
    lines.append(
        f"kernel deaths {deaths}, lost results {lost}, kernels that left something {left}, others"
        f" {len(bad) - deaths - lost - left}"
    )
    lines += [f"  {o['index']} {o['kind']} {o['asked']}: {o['bad']}: {o['error']} {o['text'][:300]}" for o in bad]
    return "\n".join(lines)


def _read(settings: Settings) -> set[int]:
    if not settings.state.exists():
        return set()
    outcomes = [*_lines(settings.state)]
    seeds = {o["seed"] for o in outcomes} - {settings.seed}
    if seeds:
        raise StateError(f"{settings.state} has outcomes of seed {seeds}, not {settings.seed}: name another file.")
    return {o["index"] for o in outcomes}


def _lines(state: Path) -> Iterator[dict[str, Any]]:
    for line in state.read_text().splitlines():
        try:
            yield json.loads(line)
        except ValueError:  # the last line of a run that was killed
            continue
