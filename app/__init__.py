"""The dashboard: a router, one file a page in `app.pages_`, and what pages share.

It computes nothing and draws no figure.
"""

__all__: list[str] = []
