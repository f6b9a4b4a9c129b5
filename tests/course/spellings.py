"""Eight spellings of an answer, as students write them in a notebook."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from inspector.course.answers import Choice, Groups, Ids, Kind, Number

MICRO, MILLI = 1e-6, 1e-3


def spellings(kind: Kind, answer: object) -> list[object]:
    """Returns eight forms of an answer."""
    read = kind.read(answer)
    match kind:
        case Groups():
            return groups(read, kind.ordered)
        case Ids():
            return ids(read, kind.ordered)
        case Number():
            return numbers(read, kind.unit)
        case Choice():
            return names(read)
        case _:
            raise TypeError(kind)


def groups(read: Sequence[Sequence[int]], ordered: bool) -> list[object]:
    lists = [list(group) for group in read]
    hlo = "{" + ",".join("{" + ",".join(map(str, group)) + "}" for group in lists) + "}"
    unordered: object = {frozenset(group) for group in lists} if not ordered else tuple(map(tuple, lists))
    regular = len({len(group) for group in lists}) == 1
    return [
        lists, lists[::-1], hlo, hlo.replace(",", ", "), f"replica_groups={hlo}", str(lists), unordered,
        np.array(lists) if regular else [np.array(group) for group in lists],
    ]  # fmt: skip


def ids(read: Sequence[int], ordered: bool) -> list[object]:
    comma = ", ".join(map(str, read))
    single: object = read[0] if len(read) == 1 else np.array(read, int)
    return [
        list(read), tuple(read), list(map(float, read)), single, comma, f"[{comma}]", "{" + comma.replace(" ", "") + "}",
        jnp.array(read, int) if ordered else set(read),
    ]  # fmt: skip


def numbers(read: float, unit: str) -> list[object]:
    whole = round(read)
    if unit == "microseconds":
        return [
            read, np.float32(read), jnp.float32(read), f"{read:.6g}", f"{read:.6g} µs", f"{read / 1e3:.9g} ms",
            f"{read / 1e6:.9g} seconds", [read],
        ]  # fmt: skip
    if unit == "bytes":
        return [
            read, np.int64(whole), jnp.array(whole), f"{whole:,}", f"{whole} bytes", f"{whole / 1024!r} KiB",
            f"{whole:_} B", (read,),
        ]  # fmt: skip
    return [
        read,
        float(read),
        np.int32(whole),
        jnp.array(whole),
        str(whole),
        f" {whole:,} ",
        f"{whole} devices",
        [whole],
    ]


def names(read: str) -> list[object]:
    words = read.replace("-", " ").replace("_", " ")
    joined = words.title().replace(" ", "")
    spaceless = words.replace(" ", "")
    return [
        read, read.upper(), words, words.title(), read.replace("-", "_"), f" {joined}. ",
        f"jax.lax.{spaceless}" if "'" not in read else read.replace("'", "’"), [read],
    ]  # fmt: skip
