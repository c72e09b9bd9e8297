"""Container registries: login, lookup of digests, push."""
