"""Container registries: log-in, look-up of digests, push."""
