"""The time and cost of exchanging gradients, by topology, before a run. Pure."""
