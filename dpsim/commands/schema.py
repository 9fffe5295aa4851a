"""``dpsim schema``: the JSON Schema of scenario files."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import BaseModel


def schema() -> None:
    """Print the JSON Schema of scenario files, for editors that complete and check them.

    Example: dpsim schema > scenario.schema.json
    """
    from dpsim.scenario import Scenario

    sys.stdout.write(schema_text(Scenario))


def schema_text(model: type[BaseModel]) -> str:
    """Return the JSON Schema (draft 2020-12) of the files that ``model`` reads, as text.

    Keys of nested mappings are sorted; fields keep their order.
    """
    generated = model.model_json_schema(mode="validation")
    title = generated.pop("title", model.__name__)
    draft = "https://json-schema.org/draft/2020-12/schema"
    whole = {"$schema": draft, "title": title, **generated}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
