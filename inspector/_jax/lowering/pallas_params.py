"""The fields of Pallas's `CompilerParams`, from the installed JAX's own dataclasses, and checks of their values.

The fields differ between JAX versions, so this module lists only those in the public documentation of
`jax.experimental.pallas.tpu.CompilerParams`, to report which of them this JAX lacks.

Private JAX: none; the classes are public, in `jax.experimental.pallas`.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import importlib
import inspect
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from inspector import platforms
from inspector._jax.values import Facts
from inspector.errors import FlagTypeError, OptionError, Unavailable, UnknownFlagError
from inspector.support.notebook import short

_CLASSES = {"mosaic_tpu": "tpu", "triton": "triton", "mosaic_gpu": "mosaic_gpu"}

# Documented fields, to report those that this JAX lacks.
_DOCUMENTED = (
    "dimension_semantics", "allow_input_fusion", "vmem_limit_bytes", "collective_id", "has_side_effects", "flags",
    "internal_scratch_in_bytes", "serialization_format", "kernel_type", "disable_bounds_checks",
    "disable_semaphore_checks", "skip_device_barrier", "allow_collective_id_without_custom_barrier",
    "shape_invariant_numerics", "use_tc_tiling_on_sc", "needs_layout_passes", "fuse_transposed_lhs_in_matmul",
)  # fmt: skip


_ELSEWHERE = {"kernel_type": "the mesh of pl.kernel selects the core type"}


def backend_for(platform: str, own: str | None) -> str:
    """Returns the backend of a kernel lowered for a platform: the kernel's own, unless that belongs to another platform."""
    backends = platforms.named(platform).pallas
    if not backends or own in backends:
        return own or "mosaic_tpu"
    if "mosaic_gpu" in backends and _prefers_mosaic() and not isinstance(params_class("mosaic_gpu"), Unavailable):
        return "mosaic_gpu"
    return backends[0]


def backend_of(value: Any) -> str | None:
    """Returns the backend of compiler parameters or of a mesh of cores, None for other values."""
    module = type(value).__module__
    for backend in ("mosaic_gpu", "triton", "mosaic"):
        if f".{backend}." in f"{module}.":
            return "mosaic_tpu" if backend == "mosaic" else backend
    return None


def has_default(backend: str) -> bool:
    """Reports whether JAX itself uses that backend for a kernel without parameters, in this process.

    Up to JAX 0.10 the default for GPUs is Mosaic, which needs packages that may be missing.
    """
    return backend != "triton" or not _prefers_mosaic()


def _prefers_mosaic() -> bool:
    return bool(getattr(jax.config, "jax_pallas_use_mosaic_gpu", False))


def params_class(backend: str) -> Any:
    """Returns the `CompilerParams` of a backend, or an `Unavailable` if this installation has none."""
    try:
        return importlib.import_module(f"jax.experimental.pallas.{_CLASSES[backend]}").CompilerParams
    except (ImportError, AttributeError) as error:
        return Unavailable(
            f"jax.experimental.pallas.{_CLASSES[backend]} of JAX {jax.__version__} cannot be used: {error}"
        )


@functools.cache
def fields(backend: str) -> tuple[Facts, ...]:
    """Returns every field: `name`, `type` (text), `default`, `choices`, `description`; with `reason` and `remedy` if this JAX lacks it."""
    cls = params_class(backend)
    if isinstance(cls, Unavailable):
        return ()
    hints, described = typing.get_type_hints(cls), _descriptions(cls)
    listed: list[Facts] = [
        {
            "name": field.name,
            "type": type_text(hints[field.name]),
            "default": plain(_default(cls, field)),
            "choices": _choices(hints[field.name]),
            "description": described.get(field.name, ""),
            "reason": "",
            "remedy": "",
        }
        for field in dataclasses.fields(cls)
    ]
    lacking = [name for name in _DOCUMENTED if name not in hints] if backend == "mosaic_tpu" else []
    return (*listed, *map(_lacking, lacking))


def _lacking(name: str) -> Facts:
    reason = f"CompilerParams of JAX {jax.__version__} has no such field"
    missing = {"name": name, "type": "", "default": None, "choices": (), "description": ""}
    return missing | {"reason": reason, "remedy": _ELSEWHERE.get(name, "")}


def with_fields(
    backend: str, params: Any, wanted: Mapping[str, Any], where: str, *, grid_rank: int, input_count: int
) -> Any:
    """Returns a `CompilerParams` like the given one with some values replaced, after checking them.

    Args:
      backend: backend of the parameters.
      params: the program's own parameters, or None.
      wanted: values by field. Enums may be given as their value or name, and sequences as any sequence type.
      where: a description of the kernel, for messages.
      grid_rank: number of dimensions of the kernel's grid.
      input_count: number of its inputs.

    Raises:
      UnknownFlagError: the installed JAX has no such field.
      FlagTypeError: a value has the wrong type.
      OptionError: a value is invalid, or the backend is not available.
    """
    cls = params_class(backend)
    if isinstance(cls, Unavailable):
        raise OptionError(f"compiler_params of {where}: {cls}.")
    hints = typing.get_type_hints(cls)
    unknown = [name for name in wanted if name not in hints]
    if unknown:
        raise UnknownFlagError(
            f"compiler_params of {where}: {_public_name(cls)} of JAX {jax.__version__} has no field {short(unknown[0])}."
            f" It has: {', '.join(hints)}."
        )
    values = {name: _checked(name, value, hints[name], where) for name, value in wanted.items()}
    _check_lengths(values, where, {"dimension_semantics": ("grid dimensions", grid_rank),
                                   "allow_input_fusion": ("inputs", input_count)})  # fmt: skip
    own = params if backend_of(params) == backend else cls()
    return dataclasses.replace(own, **values)


def _public_name(cls: Any) -> str:
    return f"jax.experimental.pallas.{_CLASSES[backend_of(cls()) or 'mosaic_tpu']}.{cls.__name__}"


def _check_lengths(values: Mapping[str, Any], where: str, expected: Mapping[str, tuple[str, int]]) -> None:
    for name, (what, count) in expected.items():
        value = values.get(name)
        if value is not None and len(value) != count:
            raise OptionError(
                f"compiler_params of {where}: {name} has {len(value)} values {short(tuple(plain(value)))}, but the kernel has"
                f" {count} {what}. Expected one value for each."
            )
    warps = values.get("num_warps")
    if warps is not None and (warps < 1 or warps & (warps - 1)):  # such a value makes Triton's compiler end its process
        raise OptionError(f"compiler_params of {where}: num_warps is {warps}. Expected a power of two.")
    for name, value in values.items():
        if name.endswith("_bytes") and isinstance(value, int) and value < 1:
            raise OptionError(f"compiler_params of {where}: {name} is {value}. Expected a positive number of bytes.")


def _checked(name: str, value: Any, hint: Any, where: str) -> Any:
    try:
        return _converted(value, hint)
    except TypeError:
        raise FlagTypeError(
            f"compiler_params of {where}: {name} got {short(value)} of type {type(value).__name__}. Expected"
            f" {type_text(hint)}{_hint_of(hint)}."
        ) from None


def _hint_of(hint: Any) -> str:
    choices = _choices(hint)
    return f", one of {', '.join(map(repr, choices))}" if choices else ""


def _converted(value: Any, hint: Any) -> Any:
    """Converts a value to the type of a type hint.

    Raises:
      TypeError: it cannot be converted.
    """
    if hint is Any:
        return value
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _converted_to_one(value, arguments)
    if origin is typing.Literal:
        if isinstance(value, enum.Enum):
            value = value.value
        if any(value is a or (type(value) is type(a) and value == a) for a in arguments):
            return value
    elif _is_sequence(origin) and isinstance(value, Sequence) and not isinstance(value, str):
        item = arguments[0] if arguments else Any
        return tuple(_converted(v, item) for v in value)
    elif origin in (dict, Mapping) or getattr(origin, "__name__", "") == "Mapping":
        if isinstance(value, Mapping) and all(isinstance(k, str) for k in value):
            return dict(value)
    elif isinstance(hint, type):
        return _converted_to_class(value, hint)
    raise TypeError


def _converted_to_one(value: Any, hints: Sequence[Any]) -> Any:
    for hint in sorted(hints, key=lambda h: h is not type(value)):
        try:
            return _converted(value, hint)
        except TypeError:
            continue
    raise TypeError


def _converted_to_class(value: Any, cls: type) -> Any:
    if cls is type(None):
        if value is None:
            return None
    elif issubclass(cls, enum.Enum):
        for member in cls:
            if value is member or (isinstance(value, str) and value in (member.name, member.value)):
                return member
    elif cls is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    elif isinstance(value, cls) and not (cls is int and isinstance(value, bool)):
        return value
    raise TypeError


def _is_sequence(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Sequence)


def type_text(hint: Any) -> str:
    """Returns a type hint as people write it, for example `tuple[str, ...] | None`; enums and literals as the type of their choices."""
    if hint is type(None):
        return "None"
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(dict.fromkeys(type_text(a) for a in arguments))
    if origin is typing.Literal:
        return "str"
    if origin is not None:
        inner = ", ".join("..." if a is Ellipsis else type_text(a) for a in arguments)
        name = "tuple" if _is_sequence(origin) else "dict" if "apping" in origin.__name__ else origin.__name__
        return f"{name}[{inner if '...' in inner or name == 'dict' else inner + ', ...'}]"
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return "str"
    return getattr(hint, "__name__", str(hint))


def _choices(hint: Any) -> tuple[Any, ...]:
    """Returns the values of the enums and literals in a hint, without duplicates."""
    if typing.get_origin(hint) is typing.Literal:
        return typing.get_args(hint)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return tuple(member.value if isinstance(member.value, str) else member.name for member in hint)
    return tuple(dict.fromkeys(c for a in typing.get_args(hint) for c in _choices(a)))


def _default(cls: Any, field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    return getattr(cls(), field.name, None)


def _descriptions(cls: Any) -> dict[str, str]:
    """Returns the description of each attribute in the class's docstring, each as one line."""
    lines = inspect.cleandoc(cls.__doc__ or "").partition("Attributes:\n")[2].split("\n")
    descriptions: dict[str, str] = {}
    name, indent = "", min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    for line in lines:
        head, colon, rest = line.strip().partition(":")
        if colon and len(line) - len(line.lstrip()) == indent and head.isidentifier():
            name, descriptions[head] = head, rest.strip()
        elif name and line.strip():
            descriptions[name] = f"{descriptions[name]} {line.strip()}".strip()
    return descriptions


def plain_params(compiler_params: Any) -> tuple[tuple[str, Any], ...]:
    """Returns every field of a `CompilerParams` with its value, without JAX's classes."""
    if not dataclasses.is_dataclass(compiler_params):
        return ()
    return tuple((f.name, plain(getattr(compiler_params, f.name))) for f in dataclasses.fields(compiler_params))


def plain(value: Any) -> Any:
    """Converts a value to plain types: an enum to its value, a mapping to pairs, any other class to text."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, enum.Enum):
        return value.value if isinstance(value.value, str) else value.name
    if isinstance(value, Mapping):
        return tuple((str(k), plain(v)) for k, v in value.items())
    if isinstance(value, (tuple, list)):
        return tuple(plain(v) for v in value)
    return str(value)
