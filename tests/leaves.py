"""What is no object or list in JSON, with its path."""


def leaves(value, path=""):
    """Return paths and values in order; an empty object or list keeps its place."""
    if isinstance(value, (dict, list)) and value:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return [leaf for key, inner in items for leaf in leaves(inner, f"{path}.{key}")]
    return [(path, value)]
