"""The base of every configuration model.

The checked and frozen content of a scenario or a catalogue entry.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializationInfo,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from dpsim.base.files import digest

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

LARGEST_INTEGER = 2**63 - 1  # of 64 bits, as in integer arrays
_LONGEST_VALUE = 60  # most characters of a wrong value in an error

# The rules that pydantic's errors report, by the error's type.
RULES = {
    "missing": "is missing",
    "extra_forbidden": "is not a known key",
    "string_type": "must be text",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must match the pattern {pattern}",
    "int_type": "must be an integer",
    "int_parsing": "must be an integer",
    "int_parsing_size": "must be an integer of fewer digits",
    "int_from_float": "must be an integer",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "multiple_of": "must be a multiple of {multiple_of}",
    "none_required": "must be left empty",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "set_type": "must be a list",
    "frozen_set_type": "must be a list",
    "iterable_type": "must be a list",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "dict_type": "must be a mapping",
    "mapping_type": "must be a mapping",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
    "dataclass_type": "must be a mapping",
}


class Config(BaseModel):
    """A checked, immutable piece of configuration; unknown keys are errors.

    Fields that hold quantities are text with a unit in the file and SI floats inside
    (`dpsim.base.units`); integers have 64 bits.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    also_called: ClassVar[tuple[str, ...]] = ()
    """Other names of a kind: an error about one of them suggests this kind's name."""

    @field_validator("*")
    @classmethod
    def _of_64_bits(cls, value: Any) -> Any:
        # Runs for every field of every part; most are not integers and return at once.
        if isinstance(value, int):
            _check_64_bits(value)
        elif isinstance(value, tuple):
            for one in value:
                if isinstance(one, int):
                    _check_64_bits(one)
        return value


def _check_64_bits(value: int) -> None:
    if abs(value) > LARGEST_INTEGER:
        raise ValueError(
            f"must be an integer of 64 bits, at most {LARGEST_INTEGER}, but got one of "
            f"{len(str(value))} digits"
        )


class Problem(NamedTuple):
    """An error of a model: ``where`` in it (empty for the whole), the ``rule``, and the value."""

    where: str
    rule: str
    given: Any

    def __str__(self) -> str:
        """Return the place and the rule, with the value if it is a number or a text."""
        rule = self.rule
        # Rules of our own validators state the value, and rules on a whole part state the error in
        # it.
        if rule.startswith("must ") and "but got" not in rule and self.given is not None:
            rule += _but_got(self.given)
        return f"{self.where}: {rule}" if self.where else rule


def _but_got(value: object) -> str:
    """Return the end of a line about ``value``; of a list its length, of a mapping nothing."""
    if isinstance(value, (list, tuple)):
        return f", but got {len(value)}"
    if isinstance(value, (dict, BaseModel)):
        return ""
    shown = repr(value)
    return f", but got {shown if len(shown) <= _LONGEST_VALUE else f'{shown[:_LONGEST_VALUE]}...'}"


def plain_rule(error: ErrorDetails) -> str:
    """Return the rule that a value breaks: ``must be at least 1``."""
    if error["type"] in RULES:
        return RULES[error["type"]].format_map(error.get("ctx", {}))
    return error["msg"].removeprefix("Value error, ").replace("Input should", "must")


def first_problem(error: ValidationError) -> Problem:
    """Return the first of the problems that pydantic found, for a one-line error."""
    first = error.errors(include_url=False)[0]
    return Problem(".".join(map(str, first["loc"])), plain_rule(first), first["input"])


def beside_scenario(path: str, info: ValidationInfo) -> str:
    """Return the path relative to the current folder.

    The scenario's folder is the validation context's ``folder``.
    """
    folder = (info.context or {}).get("folder")
    return path if folder is None else str(Path(folder) / path)


def as_content(path: str, info: SerializationInfo) -> str:
    """Return the path, or the file's digest if it is dumped with ``BY_CONTENT``."""
    is_by_content = (info.context or {}).get("by_content", False)
    return digest(path) if is_by_content and Path(path).is_file() else path


# The context of a dump that represents files by their content, so that two dumps are equal only if
# the files are. Each field that names a file must support it.
BY_CONTENT = {"by_content": True}

# A file's path; in a scenario it is relative to the scenario file.
FilePath = Annotated[
    str, Field(min_length=1), AfterValidator(beside_scenario), PlainSerializer(as_content)
]
