"""Reports: one HTML file of runs and benches, with charts, readable without network or scripts.

`data` reads runs from the store and their folders, `*_section` make their sections of a report,
`*_charts` make charts as data, `drawing` draws them in a `plot`, `canvas` writes SVG, and `png`
writes PNG files by matplotlib (extra `report`); `html` makes markup in which no text of a
job can act.
"""
