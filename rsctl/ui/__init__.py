"""`rsctl ui`: a live page of runs and benches, for the browser of the user who started it.

`server` listens on loopback, `guard` decides which requests are answered, `routes` has the
addresses. `live_page` and `plots` make what the page shows from the sections and charts of reports;
`assets/` draws them. `streams` sends what changes as server-sent events.
"""
