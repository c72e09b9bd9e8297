"""What commands show of runs, benches, builds, gates and advice: one module a subject."""
