"""A family of configuration models for test_kinds_on_demand.py."""
