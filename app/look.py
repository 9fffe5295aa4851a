"""Styles beyond Streamlit's theme: spacing, the row of numbers, cards, narrow pages."""

from __future__ import annotations

from dpsim.report.theme import COLOUR, SURFACES, ink_on

_LIGHT, _DARK = SURFACES["light"], SURFACES["dark"]

# Light and dark need no rerun: `light-dark` follows Streamlit's setting, and mixtures and charts
# follow the text colour.
STYLE = f"""
:root {{
  --dp-good: light-dark({_LIGHT.good}, {_DARK.good});
  --dp-bad: light-dark({_LIGHT.bad}, {_DARK.bad});
  --dp-link: light-dark({_LIGHT.link}, {_DARK.link});
  --dp-on-link: light-dark({ink_on(_LIGHT.link)}, {ink_on(_DARK.link)});
  --dp-muted: color-mix(in srgb, currentColor 76%, transparent);
  --dp-border: color-mix(in srgb, currentColor 20%, transparent);
  --dp-page: 4.2rem 2.5rem 2rem;
}}
/* Private ids of Streamlit, as no theme option or key reaches these: the sides of the page's
  padding, the colour of captions, which has too little contrast for small words, and an empty
  sidebar, left when the page before, which had one, reran while the user went to the next. */
[data-testid=stMainBlockContainer] {{padding: var(--dp-page)}}
[data-testid=stSidebar]:not(:has([data-testid=stElementContainer])) {{display: none}}
[data-testid=stCaptionContainer] {{color: var(--dp-muted); opacity: 1;
  p {{color: inherit}}}}
.js-plotly-plot .main-svg {{background: transparent !important}}
.js-plotly-plot .bglayer .bg {{fill: transparent !important}}
/* Axes of several plots in one have numbers: x2title, y3tick. */
.js-plotly-plot :is([class$=title], .cbtitle text, .legendtext,
  .legendtitletext, .annotation-text, .textpoint text, g[class$=tick] text, .cbaxis text,
  .bartext-outside) {{fill: currentColor !important}}
/* Plotly picks dark grey for text inside transparent bars, as if the page were white. */
.js-plotly-plot .bartext-inside[style*="rgb(68, 68, 68)"] {{fill: currentColor !important}}
dl.dp-row {{display: grid; grid-template-columns: repeat(auto-fit, minmax(8.8rem, 1fr));
  gap: 0.7rem; margin: 0; padding: 0; width: 100%}}
.dp-number {{border: 1px solid var(--dp-border); border-radius: 0.5rem; padding: 0.6rem 0.8rem;
  min-width: 0}}
.dp-number dt {{font-size: 0.85rem; color: var(--dp-muted); margin: 0}}
.dp-number dd {{margin: 0}}
:is(.dp-value, .dp-within) {{font-size: 1.55rem; font-weight: 600; line-height: 1.3;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere; text-wrap: balance}}
.dp-number:has(.dp-band) {{grid-column: span 2}}
.dp-number:has(.dp-band) :is(.dp-value, .dp-within) {{display: inline-block; margin-right: 1rem}}
.dp-band {{position: relative; height: 0.5rem; border-radius: 0.25rem; margin: 0.25rem 0.3rem;
  background: var(--dp-border)}}
.dp-band > i {{position: absolute; top: 0; bottom: 0; right: 0; border-radius: 0.25rem;
  background: color-mix(in srgb, {COLOUR["blue"]} 55%, transparent)}}
.dp-band > b {{position: absolute; top: -0.15rem; width: 0.8rem; height: 0.8rem;
  margin-left: -0.4rem; border-radius: 50%; background: currentColor}}
.dp-note, .dp-delta {{font-size: 0.82rem; color: var(--dp-muted); line-height: 1.35}}
.dp-delta.good {{color: var(--dp-good); font-weight: 600}}
.dp-delta.bad {{color: var(--dp-bad); font-weight: 600}}
.dp-bar {{height: 0.5rem; border-radius: 0.25rem; background: var(--dp-border); margin: 0.25rem 0;
  overflow: hidden}}
.dp-bar > i {{display: block; height: 100%; background: {COLOUR["blue"]}}}
.dp-bar > i.over {{background: {COLOUR["vermilion"]}}}
.dp-verdict {{font-size: 1.15rem; font-weight: 600; margin: 0.2rem 0 0}}
.dp-title {{display: flex; flex-wrap: wrap; align-items: baseline; column-gap: 0.7rem;
  font-size: 1.5rem; font-weight: 650; line-height: 1.25; margin: 0}}
.dp-title small {{font-size: 0.82rem; font-weight: 400; color: var(--dp-muted)}}
h2.dp-chart {{font-size: 1.05rem; font-weight: 600; line-height: 1.3; padding: 0;
  margin: 0.3rem 0 -0.6rem}}
.dp-chart small {{display: block; font-size: 0.82rem; font-weight: 400; color: var(--dp-muted)}}
.dp-compared {{overflow-x: auto}}
.dp-compared table {{border-collapse: collapse; font-variant-numeric: tabular-nums}}
.dp-compared :is(th, td) {{text-align: left; vertical-align: top; padding: 0.2rem 1.2rem 0.2rem 0;
  min-width: 7rem; border-bottom: 1px solid var(--dp-border)}}
.dp-about {{color: var(--dp-muted); margin: 0.15rem 0 0}}
/* A knob's button shows only its icon; screen readers and its tooltip have its words. The hidden
  words extend to the left, where they cannot widen the page. */
[class*="st-key-compare-"] button {{color: var(--dp-muted); padding: 0.45rem 0 0.45rem 0.4rem;
  position: relative; p {{position: absolute; right: 0; clip-path: inset(50%)}}}}
/* Set-ups, remedies and changes to try: names of several lines, in a list. */
:is([class*="st-key-open-"], [class*="st-key-way-"], [class*="st-key-try-"]) button {{
  justify-content: start; text-align: left}}
/* Chosen options of a multiselect. */
main [data-tag] {{color: var(--dp-on-link)}}
:focus-visible {{outline: 2px solid var(--dp-link); outline-offset: 1px}}
/* Two charts side by side are one below the other where each would be too narrow. */
:has(> .st-key-curve) {{flex: 3 1 28rem; min-width: min(28rem, 100%)}}
:has(> .st-key-load) {{flex: 2 1 20rem; min-width: min(20rem, 100%)}}
/* On narrow pages a segmented control wraps; its pieces then need their own borders. */
@media (max-width: 900px) {{
  main [role=radiogroup] {{gap: 0.3rem}}
  main [role=radiogroup] [role=radio] {{border-radius: 0.5rem; margin: 0}}
  main [role=radiogroup] [role=radio][aria-checked=false] {{
    border-color: var(--dp-border) !important}}
}}
@media (max-width: 640px) {{
  :root {{--dp-page: 4rem 0.8rem 2rem}}
  dl.dp-row {{gap: 0.5rem}}
  :is(.dp-value, .dp-within) {{font-size: 1.3rem}}
}}
@media (prefers-reduced-motion: reduce) {{
  *, *::before, *::after {{animation-duration: 0.01ms !important;
    animation-iteration-count: 1 !important; transition-duration: 0.01ms !important;
    scroll-behavior: auto !important}}
}}
"""
