"""The JSON Schema of scenario files, for editors; deterministic for the same models."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel


def schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of the files that ``model`` reads.

    Keys of nested mappings are sorted; fields keep their order.
    """
    generated = model.model_json_schema(mode="validation")
    title = generated.pop("title", model.__name__)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **generated}


def text(model: type[BaseModel]) -> str:
    """Return `schema` as indented JSON with a trailing newline, as ``dpsim schema`` prints it."""
    return json.dumps(schema(model), indent=2, ensure_ascii=False) + "\n"
