"""Machines, accelerators, bandwidths and prices, as data with sources and dates, and look-ups."""
