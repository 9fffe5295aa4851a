"""The JSON Schema of scenario files, for editors: the same text for the same models, always."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel


def schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of the files that ``model`` reads.

    Keys inside are sorted, fields stay in order.
    """
    generated = model.model_json_schema(mode="validation")
    title = generated.pop("title", model.__name__)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **generated}


def text(model: type[BaseModel]) -> str:
    """`schema` as indented JSON that ends in a newline: what ``dpsim schema`` prints."""
    return json.dumps(schema(model), indent=2, ensure_ascii=False) + "\n"
