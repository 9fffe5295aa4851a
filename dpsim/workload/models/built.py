"""What an entry of the catalogue of models is: a factory, and what may be asked of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from dpsim.base.errors import DpsimError
from dpsim.workload.layer import Model

Attention = Literal["flash", "unfused"]

# Hugging Face's attn_implementation, which configurations state and scenarios may say as well.
ATTENTION_OF: dict[str, Attention] = {
    "eager": "unfused",
    "sdpa": "flash",
    "flash_attention_2": "flash",
    "flash_attention_3": "flash",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A model that is built when asked for.

    ``fusible``: its factory takes ``fused``, whether attention is one kernel that never writes the
    scores. ``attention`` is what the model itself says of that, None where it leaves it open.
    ``has_length``: its samples are sequences, whose length can be chosen.
    """

    has_length: ClassVar[bool] = False
    fusible: bool = False
    attention: Attention | None = None

    def check_attention(self, attention: Attention | None) -> None:
        """Raises DpsimError where attention is asked for, and there is none to choose."""
        if attention is not None and not self.fusible:
            raise DpsimError(
                "must be left out for a model whose attention cannot be chosen, but got "
                f"{attention!r}"
            )

    def _settings(self, attention: Attention | None) -> dict[str, bool]:
        """What the factory is told beside its arguments."""
        self.check_attention(attention)
        # What is asked for counts before what the model's own file says.
        chosen = attention or self.attention
        return {} if chosen is None else {"fused": chosen == "flash"}


@dataclass(frozen=True, slots=True)
class Images(Built):
    """A model whose samples are all alike, such as images: no length to choose."""

    factory: Callable[..., Model]

    def check(self, sequence_length: int | None) -> None:
        """Raises DpsimError when a sequence length is asked for."""
        if sequence_length is not None:
            raise DpsimError(f"must be left out for a model of images, but got {sequence_length}")

    def build(
        self, sequence_length: int | None = None, attention: Attention | None = None
    ) -> Model:
        """The model; raises DpsimError when a sequence length is asked for."""
        self.check(sequence_length)
        return self.factory(**self._settings(attention))


@dataclass(frozen=True, slots=True)
class Tokens(Built):
    """A model of sequences: the length when none is asked for, and the longest that it takes."""

    has_length: ClassVar[bool] = True
    factory: Callable[..., Model]
    usual: int
    longest: int
    unit: str = "tokens"

    def check(self, sequence_length: int | None) -> None:
        """Raises DpsimError for a length that is not from 1 to the longest."""
        if sequence_length is not None and not 1 <= sequence_length <= self.longest:
            raise DpsimError(
                f"must be from 1 to {self.longest} {self.unit} for this model, but got "
                f"{sequence_length}"
            )

    def build(
        self, sequence_length: int | None = None, attention: Attention | None = None
    ) -> Model:
        """The model for sequences of that length.

        Raises DpsimError for a length that it cannot take.
        """
        self.check(sequence_length)
        length = self.usual if sequence_length is None else sequence_length
        model = self.factory(length, **self._settings(attention))
        # Frames of speech are no tokens, of which rates and utilisation would be told.
        return replace(model, tokens=length) if self.unit == "tokens" else model
