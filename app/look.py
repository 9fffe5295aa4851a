"""What Streamlit's theme does not cover: spacing, the row of numbers, cards, narrow pages."""

from __future__ import annotations

from dpsim.report.theme import COLOUR, SURFACES

_LIGHT, _DARK = SURFACES["light"], SURFACES["dark"]

# `light-dark` follows the mode that Streamlit sets on the page.
STYLE = f"""
:root {{
  --dp-good: light-dark({_LIGHT.good}, {_DARK.good});
  --dp-bad: light-dark({_LIGHT.bad}, {_DARK.bad});
  --dp-muted: light-dark({_LIGHT.muted}, {_DARK.muted});
  --dp-border: light-dark({_LIGHT.border}, {_DARK.border});
  --dp-panel: light-dark({_LIGHT.panel}, {_DARK.panel});
  --dp-full: {COLOUR["vermilion"]};
  --dp-held: {COLOUR["blue"]};
}}
[data-testid=stMainBlockContainer] {{padding: 4.2rem 2.5rem 2rem}}
[data-testid=stSidebarHeader] {{height: 2.5rem}}
[data-testid=stMainBlockContainer] [data-testid=stVerticalBlock] {{gap: 0.8rem}}
dl.dp-row {{display: grid; grid-template-columns: repeat(auto-fit, minmax(10.5rem, 1fr));
  gap: 0.7rem;  margin: 0; padding: 0; width: 100%}}
.dp-number {{border: 1px solid var(--dp-border); border-radius: 0.5rem; padding: 0.6rem 0.8rem;
  min-width: 0}}
.dp-number dt {{font-size: 0.85rem; color: var(--dp-muted); margin: 0}}
.dp-number dd {{margin: 0}}
.dp-value {{font-size: 1.55rem; font-weight: 600; line-height: 1.3;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere}}
.dp-note, .dp-delta {{font-size: 0.82rem; color: var(--dp-muted); line-height: 1.35}}
.dp-delta.good {{color: var(--dp-good); font-weight: 600}}
.dp-delta.bad {{color: var(--dp-bad); font-weight: 600}}
.dp-bar {{height: 0.5rem; border-radius: 0.25rem; background: var(--dp-border); margin: 0.25rem 0;
  overflow: hidden}}
.dp-bar > i {{display: block; height: 100%; background: var(--dp-held)}}
.dp-bar > i.over {{background: var(--dp-full)}}
.dp-verdict {{font-size: 1.15rem; font-weight: 600; margin: 0.2rem 0 0}}
.dp-title {{font-size: 1.5rem; font-weight: 650; line-height: 1.25; margin: 0}}
.dp-about {{color: var(--dp-muted); margin: 0.15rem 0 0}}
[data-testid=stCaptionContainer] {{color: var(--dp-muted); opacity: 1}}
[data-testid=stCaptionContainer] p {{color: inherit}}
/* On the colour of links white is read in light mode, black in dark mode. */
[data-testid=stMultiSelectTagsContainer] [data-tag] {{color: light-dark(#ffffff, #000000)}}
[data-testid=stIconMaterial][color*="0.6"] {{color: var(--dp-muted) !important}}
:focus-visible {{outline: 2px solid light-dark({_LIGHT.link}, {_DARK.link}); outline-offset: 1px}}
/* Two charts side by side are one below the other where each would be too narrow. */
@media (max-width: 1100px) {{
  .st-key-pictures [data-testid=stColumn] {{min-width: calc(100% - 1rem)}}
}}
@media (max-width: 640px) {{
  [data-testid=stMainBlockContainer] {{padding: 4rem 0.8rem 2rem}}
  .dp-row {{grid-template-columns: repeat(auto-fit, minmax(8.8rem, 1fr)); gap: 0.5rem}}
  .dp-value {{font-size: 1.3rem}}
}}
@media (prefers-reduced-motion: reduce) {{
  *, *::before, *::after {{animation-duration: 0.01ms !important;
    animation-iteration-count: 1 !important; transition-duration: 0.01ms !important;
    scroll-behavior: auto !important}}
}}
"""
