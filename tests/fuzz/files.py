"""Corrupted files and hostile modules: none may raise another error than ours, cost much memory, or take long.

    python -m tests.fuzz.files --seed 0 --files 1000 --modules 300 --minutes 10

The same seed and number always make the same file, of the same jaxlib's programs. Exit status 1 when something is bad.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import copy
import dataclasses
import hashlib
import json
import os
import random
import resource
import signal
import struct
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

import inspector
from inspector import settings
from inspector.api.sweep_ledger import Ledger
from inspector.compilation.compiled import digest_of
from inspector.engines.executable import load_executable
from inspector.errors import InspectorError
from inspector.stages.compiled import load_compiled
from inspector.stages.lowered import Lowered
from tests.fuzz.hostile import mutated_bytes, mutated_text

LIMIT_S = 60
MAX_EXTRA_BYTES = 200 << 20
MAX_MESSAGE = 20_000

_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 2**31, 10**30, 1.5, float("nan"), float("inf"), "", "x", "\ud800", "x" * 10_000, [], [[]], [1], {},
    {"a": 1}, {"unavailable": [1, 2]}, {"unavailable": "x"}, {"at_least": 1, "missing": [1]},
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Outcome:
    kind: str
    number: int
    said: str
    seconds: float
    bad: str = ""


@dataclasses.dataclass(frozen=True)
class Base:
    """A good file, taken apart, and the program that it is of."""

    lowered: Lowered
    entries: Mapping[str, bytes]
    whole: bytes
    rows: bytes


def base(folder: Path) -> Base:
    def step(x: jax.Array) -> jax.Array:
        return jax.lax.psum(jnp.tanh(x @ x.T), "i")

    lowered = inspector.lower(step, jax.ShapeDtypeStruct((16, 16), jnp.float32), axis_env=[("i", 2)])
    compiled = lowered.compile(target="cpu:2", products=("passes", "assembly", "buffers"))
    compiled.save(folder / "good")
    with zipfile.ZipFile(folder / "good") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    inspector.sweep(lowered, {"xla_cpu_enable_fast_math": [False, True]}, "cpu:2", path=folder / "rows")
    return Base(lowered, entries, (folder / "good").read_bytes(), (folder / "rows").read_bytes())


def use(path: Path) -> None:
    """Loads a file and uses it as users do."""
    compiled = load_compiled(path)
    repr((compiled, compiled.program, compiled.memory, compiled.cost, compiled.passes, compiled.assembly))
    uses: tuple[Callable[[], object], ...] = (
        lambda: digest_of(compiled), lambda: compiled.module().entry, lambda: repr(compiled.collectives()),
        lambda: inspector.compare(compiled), lambda: [p.before for p in compiled.passes][:3] if compiled.passes else "",
        lambda: [c.text for c in compiled.assembly] if compiled.assembly else "", lambda: repr(compiled.buffers),
        lambda: compiled.graph().source,
    )  # fmt: skip
    for each in uses:
        with contextlib.suppress(InspectorError):
            each()


def write_archive(path: Path, entries: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> None:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)


def signed(entries: Mapping[str, bytes], about: Any = None) -> dict[str, bytes]:
    """Entries with digests that are right, as someone would write who means harm."""
    manifest = json.loads(entries["manifest.json"])
    blobs = {
        "module": "module.mlirbc",
        "hlo": "optimized.hlo",
        "hlo_proto": "optimized.hlo.pb",
        "executable": "executable.bin",
    }
    for name in (*blobs, "passes", "assembly", "buffers"):
        manifest["sha256"][name] = hashlib.sha256(entries[blobs.get(name, f"{name}.bin")]).hexdigest()
    manifest["compiled"] = manifest["compiled"] if about is None else about
    canonical = json.dumps(manifest["compiled"], sort_keys=True).encode()
    manifest["sha256"]["compiled"] = hashlib.sha256(canonical).hexdigest()
    return {**entries, "manifest.json": json.dumps(manifest).encode()}


def damaged_bytes(good: Base, source: random.Random, path: Path) -> None:
    path.write_bytes(
        mutated_bytes(good.whole, source) if source.random() < 0.7 else good.whole[: source.randrange(len(good.whole))]
    )


def changed_entry(good: Base, source: random.Random, path: Path) -> None:
    name = source.choice([n for n in good.entries if n != "manifest.json"])
    write_archive(path, signed({**good.entries, name: mutated_bytes(good.entries[name], source)}))


def changed_header(good: Base, source: random.Random, path: Path) -> None:
    """The packed header of a recorded product."""
    name = source.choice([n for n in ("passes.bin", "assembly.bin", "buffers.bin") if n in good.entries])
    data = good.entries[name]
    (length,) = struct.unpack_from("<I", data)
    value = json.loads(zlib.decompress(data[4 : 4 + length]))
    text = zlib.compress(json.dumps(_spoilt(value, source)).encode())
    write_archive(path, signed({**good.entries, name: struct.pack("<I", len(text)) + text + data[4 + length :]}))


def changed_field(good: Base, source: random.Random, path: Path) -> None:
    about = json.loads(good.entries["manifest.json"])["compiled"]
    write_archive(path, signed(good.entries, _spoilt(about, source)))


def bomb(good: Base, source: random.Random, path: Path) -> None:
    size, name = source.choice([20, 100]), source.choice(list(good.entries))
    fill = (b"[" if name == "manifest.json" else b"\0") * (1 << 20)
    method = source.choice([zipfile.ZIP_DEFLATED] * 4 + [zipfile.ZIP_BZIP2])
    with zipfile.ZipFile(path, "w", method, compresslevel=1) as archive:
        for entry, data in good.entries.items():
            with archive.open(entry, "w") as packed:  # by pieces: the fuzz itself is to stay small
                for piece in [fill] * size if entry == name else [data]:
                    packed.write(piece)
    if source.random() < 0.5:
        data = bytearray(path.read_bytes())
        place = data.rfind(b"PK\x01\x02", 0, data.rfind(name.encode()))
        struct.pack_into("<L", data, place + 24, source.choice([0, 100, 2**32 - 1]))
        path.write_bytes(data)


def packed_bomb(good: Base, source: random.Random, path: Path) -> None:
    name = source.choice([n for n in ("passes.bin", "assembly.bin", "buffers.bin") if n in good.entries])
    packer, piece = zlib.compressobj(1), source.choice([b"[", b" ", b"{},"]) * (1 << 20)
    text = b"".join([*(packer.compress(piece) for _ in range(100)), packer.flush()])
    write_archive(path, signed({**good.entries, name: struct.pack("<I", len(text)) + text}))


def no_file(good: Base, source: random.Random, path: Path) -> None:
    kind = source.choice(["pipe", "folder", "loop", "device", "empty", "long"])
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind in ("loop", "device"):
        path.symlink_to(path if kind == "loop" else source.choice(["/dev/zero", "/dev/urandom", "/proc/self/mem"]))
    else:
        with path.open("wb") as file:
            file.truncate(0 if kind == "empty" else 1 << 40)


def rows(good: Base, source: random.Random, path: Path) -> None:
    if source.random() < 0.5:
        path.write_bytes(mutated_bytes(good.rows, source))
        return
    lines = good.rows.splitlines()
    place = source.randrange(len(lines))
    lines[place] = json.dumps(_spoilt(json.loads(lines[place]), source)).encode()
    path.write_bytes(b"\n".join(lines))


FILES: Mapping[str, Callable[[Base, random.Random, Path], None]] = {
    "damaged bytes": damaged_bytes, "changed entry": changed_entry, "changed header": changed_header,
    "changed field": changed_field, "bomb": bomb, "packed bomb": packed_bomb, "no file": no_file, "rows": rows,
}  # fmt: skip
_WEIGHTS = (25, 20, 10, 30, 3, 3, 3, 6)


def _spoilt(value: Any, source: random.Random) -> Any:
    """A JSON value with one place changed, left out or doubled."""
    value = copy.deepcopy(value)
    places = [
        (owner, key)
        for owner in _containers(value)
        for key in (owner if isinstance(owner, dict) else range(len(owner)))
    ]
    owner, key = source.choice(places)
    if source.random() < 0.15:
        del owner[key]
    elif isinstance(owner, dict) and source.random() < 0.1:
        owner[f"{key}_"] = owner[key]
    else:
        owner[key] = source.choice(_VALUES)
    return value


def _containers(value: Any) -> Iterator[Any]:
    if isinstance(value, (dict, list)):
        yield value
        for each in value.values() if isinstance(value, dict) else value:
            yield from _containers(each)


HLO_HEAD = "HloModule m, entry_computation_layout={()->f32[]}\n"
MODULES: Mapping[str, Callable[[Base, random.Random], str | bytes]] = {
    "HLO text": lambda b, s: mutated_text(b.lowered.hlo, s),
    "HLO proto": lambda b, s: mutated_bytes(b.lowered.hlo_proto, s),
    "StableHLO text": lambda b, s: mutated_text(b.lowered.stablehlo, s),
    "StableHLO bytecode": lambda b, s: mutated_bytes(b.lowered.program.module, s),
    "noise": lambda b, s: s.randbytes(s.choice([1, 100, 100_000])),
    "a long header": lambda b, s: f"HloModule {'m' * (5 << 20)}{s.choice(['', ',', '{'])}\n",
    "deep": lambda b, s: HLO_HEAD + "ENTRY e { ROOT r = " + s.choice(["(", "{", "f32["]) * s.choice([100, 100_000]),
    "large shapes": lambda b, s: (
        HLO_HEAD
        + f"ENTRY e {{\n c = f32[] constant(0)\n b = f32[{2 ** s.choice([31, 40, 62])}] broadcast(c), dimensions={{}}\n ROOT r = f32[] slice(b)\n}}\n"
    ),
    "many devices": lambda b, s: (
        f"HloModule m, replica_count={s.choice([2**20, 2**31 - 1, 2**40])}\n\na {{\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = f32[] add(x, y)\n}}\n\nENTRY e {{\n p = f32[] parameter(0)\n ROOT r = f32[] all-reduce(p), replica_groups=[1,{s.choice([2**20, 2**31 - 1, 2**40])}]<=[{2**20}], to_apply=a\n}}\n"
    ),
}


def use_module(module: str | bytes) -> None:
    lowered = inspector.lower(module)
    for each in (
        lambda: repr(lowered),
        lambda: lowered.hlo,
        lambda: repr(lowered.collectives()),
        lambda: lowered.stablehlo,
    ):
        with contextlib.suppress(InspectorError):
            each()


class _TooLongError(BaseException):
    pass


def outcome(kind: str, number: int, ask: Callable[[], object]) -> Outcome:
    """Runs one input and returns its outcome."""

    def stop(*_: object) -> None:
        raise _TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT_S)
    began, said, bad = time.monotonic(), "ok", ""
    try:
        ask()
    except (InspectorError, FileNotFoundError) as e:
        said = type(e).__name__
        bad = f"a message of {len(str(e))} characters" if len(str(e)) > MAX_MESSAGE else ""
    except _TooLongError:
        bad = f"more than {LIMIT_S} s"
    except BaseException as e:
        bad = f"raw {type(e).__name__}: {str(e)[:300]}"
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return Outcome(kind, number, said, time.monotonic() - began, bad)


def fuzz(seed: int, files: int, modules: int, minutes: float) -> tuple[list[Outcome], int]:
    """The outcomes, and by how many bytes the process has grown at its largest. Says on stderr how far it is."""
    until, found = time.monotonic() + 60 * minutes, list[Outcome]()
    with tempfile.TemporaryDirectory(prefix="fuzz-files-") as name, settings.scope(cache=False):
        folder = Path(name)
        good = base(folder)
        use(folder / "good")
        Ledger(folder / "rows", good.lowered)
        largest = _largest()
        for number in range(files):
            source = random.Random(f"{seed}:file:{number}")
            kind = source.choices(list(FILES), _WEIGHTS)[0]
            path = folder / f"f{number}"
            FILES[kind](good, source, path)
            del source
            ask = (lambda path=path: Ledger(path, good.lowered)) if kind == "rows" else (lambda path=path: use(path))
            found.append(outcome(kind, number, ask))
            if kind == "damaged bytes":
                found.append(outcome("load_executable", number, lambda path=path: load_executable(path)))
            path.rmdir() if path.is_dir() else path.unlink()
            _say("files", number, files)
            if time.monotonic() > until:
                break
        for number in range(modules):
            _say("modules", number, modules)
            if time.monotonic() > until:
                break
            source = random.Random(f"{seed}:module:{number}")
            kind = source.choice(list(MODULES))
            module = MODULES[kind](good, source)
            found.append(outcome(kind, number, lambda module=module: use_module(module)))
        return found, _largest() - largest


def _say(what: str, number: int, of: int) -> None:
    if number % 50 == 0:
        print(f"{what}: {number} of {of}, at most {_largest() >> 20} MiB", file=sys.stderr, flush=True)


def _largest() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def summary(found: list[Outcome], grown: int) -> str:
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for each in found:
        counts[each.kind]["bad" if each.bad else each.said] += 1
    lines = [f"{kind:<20} {sum(count.values()):>5}  {dict(count)}" for kind, count in counts.items()]
    slowest = max(found, key=lambda o: o.seconds)
    lines.append(
        f"{len(found)} in {sum(o.seconds for o in found):.0f} s, slowest {slowest.seconds:.1f} s ({slowest.kind}"
        f" {slowest.number}); {grown / 2**20:.0f} MiB more; {sum(bool(o.bad) for o in found)} bad"
    )
    return "\n".join([*lines, *(f"  {o.kind} {o.number}: {o.bad}" for o in found if o.bad)])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.files", description="Corrupted files, hostile modules.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--modules", type=int, default=300)
    parser.add_argument("--minutes", type=float, default=10.0, help="at most")
    given = parser.parse_args()
    found, grown = fuzz(given.seed, given.files, given.modules, given.minutes)
    print(summary(found, grown))
    return int(grown > MAX_EXTRA_BYTES or any(o.bad for o in found))


if __name__ == "__main__":
    sys.exit(main())
