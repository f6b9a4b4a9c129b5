"""Changes that a lowering applies to a program: to its call, and to its Pallas kernels. Frozen values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from inspector.compilation.what_if import AS_CALLED, WhatIf
from inspector.errors import OptionError, check_bool
from inspector.hlo.pallas import Params, by_kernel


@dataclasses.dataclass(frozen=True, slots=True)
class Tuning:
    """Changes to a program.

    Attributes:
      params: compiler parameters of Pallas kernels.
      interpret: True if JAX's interpreter runs the kernels.
      chip: chip that the kernels are lowered for, such as "v5e"; "" for the default.
      what_if: changes to the call.
    """

    params: Params = ()
    interpret: bool = False
    chip: str = ""
    what_if: WhatIf = AS_CALLED

    def __post_init__(self) -> None:
        check_bool("interpret", self.interpret, OptionError)

    @classmethod
    def of(
        cls, params: Mapping[str | int, Mapping[str, Any]] | None, *, interpret: bool = False, chip: str = ""
    ) -> Tuning:
        """Creates a tuning from a mapping of mappings.

        Raises:
          OptionError: not a mapping of mappings.
        """
        pairs = ((k, tuple((f, _hashable(v)) for f, v in fields.items())) for k, fields in by_kernel(params).items())
        return cls(tuple(pairs), interpret, chip)

    def as_dict(self) -> dict[str | int, dict[str, Any]]:
        """Returns the parameters in the form that `lower` takes."""
        return {kernel: dict(fields) for kernel, fields in self.params}

    def with_params(self, params: Mapping[str | int, Mapping[str, Any]]) -> Tuning:
        """Adds parameters, which take precedence over the present ones.

        Raises:
          OptionError: not fields by kernel.
        """
        merged = self.as_dict()
        for kernel, fields in by_kernel(params).items():
            merged[kernel] = {**merged.get(kernel, {}), **fields}
        return dataclasses.replace(self, params=Tuning.of(merged).params)

    def without_kernels(self) -> Tuning:
        """Returns the part that applies to a program without Pallas kernels."""
        return Tuning(what_if=self.what_if)

    def __str__(self) -> str:
        parts = [f"{field}={value}" for _, fields in self.params for field, value in fields]
        parts += ["interpreted"] if self.interpret else []
        return " ".join([*parts, *filter(None, [str(self.what_if)])])


AS_IT_IS = Tuning()
"""No changes to the program."""


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
