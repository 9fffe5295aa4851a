"""An entry of the model catalogue: a factory, and the settings it accepts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from dpsim.base.errors import DpsimError
from dpsim.workload.layer import Model

Attention = Literal["flash", "unfused"]

# Hugging Face's attn_implementation, accepted in configurations and scenarios.
ATTENTION_OF: dict[str, Attention] = {
    "eager": "unfused",
    "sdpa": "flash",
    "flash_attention_2": "flash",
    "flash_attention_3": "flash",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A model that is built on request.

    ``fusible``: its factory takes ``fused``, whether attention is one kernel that does not
    materialise the scores. ``attention`` is the configuration's choice, if any. ``has_length``:
    samples are sequences, whose length can be chosen.
    """

    has_length: ClassVar[bool] = False
    fusible: bool = False
    attention: Attention | None = None

    def check_attention(self, attention: Attention | None) -> None:
        """Raise DpsimError if attention is requested for a model without a choice."""
        if attention is not None and not self.fusible:
            raise DpsimError(
                "must be left out for a model whose attention cannot be chosen, but got "
                f"{attention!r}"
            )

    def _settings(self, attention: Attention | None) -> dict[str, bool]:
        """Return the keyword arguments of the factory."""
        self.check_attention(attention)
        # A requested value overrides the configuration's.
        chosen = attention or self.attention
        return {} if chosen is None else {"fused": chosen == "flash"}


@dataclass(frozen=True, slots=True)
class Images(Built):
    """A model whose samples all have the same size, such as images."""

    factory: Callable[..., Model]

    def check(self, sequence_length: int | None) -> None:
        """Raise DpsimError if a sequence length is requested."""
        if sequence_length is not None:
            raise DpsimError(f"must be left out for a model of images, but got {sequence_length}")

    def build(
        self, sequence_length: int | None = None, attention: Attention | None = None
    ) -> Model:
        """Build the model. Raises DpsimError if a sequence length is requested."""
        self.check(sequence_length)
        return self.factory(**self._settings(attention))


@dataclass(frozen=True, slots=True)
class Tokens(Built):
    """A model of sequences, with its default (``usual``) and longest length."""

    has_length: ClassVar[bool] = True
    factory: Callable[..., Model]
    usual: int
    longest: int
    unit: str = "tokens"

    def check(self, sequence_length: int | None) -> None:
        """Raise DpsimError for a length that is not from 1 to the longest."""
        if sequence_length is not None and not 1 <= sequence_length <= self.longest:
            raise DpsimError(
                f"must be from 1 to {self.longest} {self.unit} for this model, but got "
                f"{sequence_length}"
            )

    def build(
        self, sequence_length: int | None = None, attention: Attention | None = None
    ) -> Model:
        """Build the model for sequences of that length. Raises DpsimError like `check`."""
        self.check(sequence_length)
        length = self.usual if sequence_length is None else sequence_length
        model = self.factory(length, **self._settings(attention))
        # Frames of speech are not tokens, by which rates and utilisation are reported.
        return replace(model, tokens=length) if self.unit == "tokens" else model
