"""The reference pages of the documentation, generated from registries, models and commands."""

from tools.reference_pages.collectives import collectives_page
from tools.reference_pages.commands import commands_page
from tools.reference_pages.hardware import hardware_page, models_page
from tools.reference_pages.scenario import networks_page, scenario_page, strategies_page

__all__ = ["reference_pages"]


def reference_pages(exit_codes: str) -> dict[str, str]:
    """Return every page's text by its file name; ``exit_codes`` describes those of commands."""
    return {
        "collectives.md": collectives_page(),
        "commands.md": commands_page(exit_codes),
        "hardware.md": hardware_page(),
        "models.md": models_page(),
        "networks.md": networks_page(),
        "scenario.md": scenario_page(),
        "strategies.md": strategies_page(),
    }
