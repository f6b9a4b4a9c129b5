"""`cache_status`: predicts whether JAX's next compile of a function hits its persistent cache, and explains a miss.

Nothing is compiled, and JAX's cache is not changed. `watch_compiles` reports actual compiles.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import jax

from inspector._jax.caches import cache_key, cache_state, shared_compiles
from inspector._jax.caches.cache_key import KeyFacts
from inspector._jax.caches.cache_lookup import Lookup, look_up
from inspector._jax.caches.cache_state import Entry
from inspector.compilation.caches.jax_cache_key import CacheKey, Ingredient
from inspector.compilation.options.options import Options
from inspector.errors import OptionError, ParameterError, Unavailable
from inspector.lowering.keywords import function_keywords

_AUTOTUNE_SHARING = Unavailable(
    "JAX removed jax_share_autotune_config_between_hosts: XLA splits autotuning over the processes and exchanges the"
    " results",
    "on GPUs, use xla_gpu_shard_autotuning, which is on by default",
)
_PROFILE_GUIDED = Unavailable(
    "with jax_enable_pgle or jax_compilation_cache_expect_pgle, the key depends on the recorded profiles",
    "turn them off to see the key of a compile without profiles",
)


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class CacheStatus:
    """The predicted result of a cache lookup, in the words of `CompileEvent`, which reports an actual one.

    Attributes:
      name: name of the module.
      cache: "hit": an entry would be loaded; "miss": there is no entry or no usable one; "unused": JAX would compile
        without its cache.
      source: source of the executable: "cache", "compiler", "process" (another process compiles and sends it) or "memory"
        (it was sent before).
      reasons: reasons for a miss; empty for a hit.
      key: the cache key.
      directory: the cache directory.
      entry: the entry stored under the key.
      unwritten: reasons why a compile would never be written; empty if it may be.
      written_if: conditions for writing it.
      sharing: the process that compiles for all processes.
      detailed_logging: True if XLA would log in detail, which JAX requests for modules with more operations than
        jax_compiler_detailed_logging_min_ops.
      notices: further remarks.
    """

    name: str
    cache: Literal["hit", "miss", "unused"] | Unavailable
    source: Literal["cache", "compiler", "process", "memory"] | Unavailable
    reasons: tuple[str, ...]
    key: CacheKey | Unavailable
    directory: str | Unavailable
    entry: Entry | Unavailable
    unwritten: tuple[str, ...]
    written_if: tuple[str, ...]
    sharing: str | Unavailable
    detailed_logging: bool
    notices: tuple[str, ...]

    @property
    def autotune_sharing(self) -> Unavailable:
        """Unavailable: JAX no longer shares autotuning results between processes. The remedy names the present mechanism."""
        return _AUTOTUNE_SHARING

    def __str__(self) -> str:
        sent = {"process": ", sent by another process", "memory": ", sent earlier by another process"}
        lines = [f"{self.name}: {self.cache}{sent.get(str(self.source), '')}"]
        lines += [f"  because {reason}" for reason in self.reasons]
        lines.append(f"  directory: {self.directory}")
        if isinstance(self.entry, Entry):
            lines.append(f"  entry: {self.entry.stored_bytes} bytes; its compile took {self.entry.compile_s} s or more")
        lines += [f"  not written: {reason}" for reason in self.unwritten]
        lines += [f"  written if {condition}" for condition in self.written_if]
        lines += [f"  note: {notice}" for notice in self.notices]
        lines += f"key: {self.key}".splitlines()
        return "\n".join(lines)

    __repr__ = __str__


def cache_status(
    fun: Any,
    *args: Any,
    kwargs: Mapping[str, Any] | None = None,
    options: Options | Mapping[str, Any] | str | None = None,
    **keywords: Any,
) -> CacheStatus:
    """Predicts whether `jax.jit(fun).lower(*args).compile(options)` hits JAX's persistent cache, and explains a miss.

    Args:
      fun: a plain or jitted function, or a `jax.stages.Traced` or `Lowered`.
      args: arguments of the function, as for `jax.jit`; their devices are part of the key.
      kwargs: keyword arguments of the function. Use it for keywords that are also parameters of `cache_status`.
      options: flags of this compile, as `compiler_options` of `jax.stages.Lowered.compile`; also an `Options` or text in the
        form of XLA_FLAGS.
      keywords: further keyword arguments of the function.

    Raises:
      OptionError: options other than flags, which JAX's compile does not accept.
      ParameterError: `fun` is not a function, arguments were given for a lowered program, or a keyword is neither the
        function's nor `cache_status`'s.
    """
    named = function_keywords(fun, args, kwargs, keywords, cache_status)
    lookup = look_up(_lowered(fun, args, named), _flags(options))
    text = "" if isinstance(lookup.key, Unavailable) else lookup.key.text
    entry = cache_state.read_entry(text) if text else Unavailable("there is no key")
    cache, reasons = _judge(lookup, entry)
    sender = lookup.sender
    source = (
        cache if isinstance(cache, Unavailable) else "cache" if cache == "hit" else shared_compiles.source(sender, text)
    )
    return CacheStatus(
        name=lookup.name,
        cache=cache,
        source=source,
        reasons=reasons,
        key=lookup.key if isinstance(lookup.key, Unavailable) else _key(lookup, lookup.key),
        directory=cache_state.directory(),
        entry=entry,
        unwritten=(*lookup.unwritten, *_why_kept(text, entry)),
        written_if=cache_state.thresholds(),
        sharing=sender if isinstance(sender, Unavailable) else f"process {sender} compiles and sends it to the others",
        detailed_logging=lookup.detailed_logging,
        notices=tuple(_notices(lookup, cache)),
    )


def _flags(options: Options | Mapping[str, Any] | str | None) -> Mapping[str, Any]:
    if isinstance(options, Mapping):
        return options  # in their order, which is part of JAX's key
    all_options = Options.of(options)
    others = sorted(all_options.as_dict().keys() - all_options.flags.keys())
    if others:
        raise OptionError(
            f"JAX's compile accepts only flags, but the options set {', '.join(others)}. Remove them: JAX takes their values"
            " from the function and its arguments."
        )
    return all_options.flags


def _lowered(fun: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None) -> jax.stages.Lowered:
    if isinstance(fun, (jax.stages.Lowered, jax.stages.Traced)):
        if args or kwargs:
            raise ParameterError(
                f"A jax.stages.{type(fun).__name__} includes its arguments. Pass it without arguments."
            )
        return fun.lower() if isinstance(fun, jax.stages.Traced) else fun
    if not callable(fun):
        raise ParameterError(
            f"Cannot predict the cache lookup of a {type(fun).__name__}. Expected a function with its arguments, or a"
            " jax.stages.Traced or Lowered."
        )
    jitted: Any = fun if hasattr(fun, "lower") else jax.jit(fun)
    lowered: jax.stages.Lowered = jitted.lower(*args, **(kwargs or {}))
    return lowered


def _judge(
    lookup: Lookup, entry: Entry | Unavailable
) -> tuple[Literal["hit", "miss", "unused"] | Unavailable, tuple[str, ...]]:
    if lookup.unused:
        return "unused", (lookup.unused,)
    if isinstance(lookup.key, Unavailable):
        return "unused", (lookup.key.reason,)
    if cache_state.profile_guided():
        return _PROFILE_GUIDED, (_PROFILE_GUIDED.reason,)
    reasons = tuple(_why_missed(lookup, lookup.key.text, entry))
    return "miss" if reasons else "hit", reasons


def _why_missed(lookup: Lookup, key: str, entry: Entry | Unavailable) -> Iterator[str]:
    if isinstance(entry, Unavailable):
        yield f"{entry.reason}; {entry.remedy}" if entry.remedy else entry.reason
        return
    if lookup.only_compiles:
        yield (
            f"JAX cannot load an executable for {lookup.platform} devices that are not attached: it warns and compiles"
            " every time"
        )
    if cache_state.compiles_to_compare(key):
        yield "jax_compilation_cache_check_contents is True: JAX compiles once per process to compare the result with the entry"


def _why_kept(key: str, entry: Entry | Unavailable) -> Iterator[str]:
    if isinstance(entry, Entry) or cache_state.has_entry(key):
        yield "the key already has an entry, and JAX does not replace entries"


def _notices(lookup: Lookup, cache: Literal["hit", "miss", "unused"] | Unavailable) -> Iterator[str]:
    if cache == "hit":
        to = f" to {lookup.dump_directory}; dump flags are not in the key" if lookup.dump_directory else ""
        yield f"XLA runs no passes after a hit, so nothing is dumped{to}"
    if lookup.compiled:
        yield "already compiled in this process: JAX returns that executable without a cache lookup"
    if lookup.holds_address:
        yield (
            "custom_partitioning adds an address of this process to the key, so other processes miss; see"
            " jax_remove_custom_partitioning_ptr_from_cache_key"
        )
    if ignored := cache_state.ignored_directory():
        yield ignored
    if not isinstance(lookup.key, Unavailable) and _holds_directory(lookup.key):
        yield "the path of the cache directory is part of the key, so a cache that was moved never hits"
    if not isinstance(lookup.sender, Unavailable):
        yield from _sharing_notices(lookup, cache == "hit")


def _sharing_notices(lookup: Lookup, is_hit: bool) -> Iterator[str]:
    fail = f"wait {shared_compiles.timeout_s():g} s for it and then fail"
    if not lookup.keys_agree:
        yield f"on CPUs each process has its own key, so the others never receive the executable: they {fail}; see share_compiles()"
    if is_hit:
        yield f"a process with a hit sends no executable: processes that miss {fail}. Give all processes the same cache directory, or none"


def _holds_directory(facts: KeyFacts) -> bool:
    folder = cache_state.directory()
    return (
        isinstance(folder, str)
        and isinstance(facts.compile_options, bytes)
        and folder.encode() in facts.compile_options
    )


def _key(lookup: Lookup, facts: KeyFacts) -> CacheKey:
    values = _values(lookup, facts)
    unknown = Unavailable("unknown to inspector")
    return CacheKey(
        text=facts.text,
        ingredients=tuple(Ingredient(name, sha256, values.get(name, unknown)) for name, sha256 in facts.digests),
        flags_left_out=facts.flags_left_out,
        compile_options=facts.compile_options,
    )


def _values(lookup: Lookup, facts: KeyFacts) -> dict[str, str | Unavailable]:
    """Returns the values of the key's ingredients by JAX's names."""
    lines = "with" if cache_key.keeps_source_lines() else "without"
    options = facts.compile_options
    return {
        "computation": f"StableHLO {lines} source lines",
        "jax_lib version": cache_key.jaxlib_version(),
        "backend version": f"{lookup.platform} {lookup.platform_version}",
        "XLA flags": " ".join(facts.flags),
        "compile_options": options if isinstance(options, Unavailable) else f"{len(options)} bytes; see diff",
        "accelerator_config": _devices_text(lookup),
        "compression": _compression(dict(facts.digests).get("compression", "")),
        "custom_hook": cache_key.custom_hook(),
    }


def _devices_text(lookup: Lookup) -> str:
    kinds = ", ".join(dict.fromkeys(lookup.device_kinds))
    here = f"{len(lookup.device_kinds)} of {lookup.client_device_count} devices ({kinds})"
    return f"{here}, seen by process {cache_state.process_id()}"


def _compression(digest: str) -> str | Unavailable:
    """Returns the compression of entries: zstandard if it is installed, else Python's zlib."""
    known = {hashlib.sha256(name.encode()).hexdigest(): name for name in ("zstandard", "zlib")}
    return known.get(digest, Unavailable("unknown to inspector"))
