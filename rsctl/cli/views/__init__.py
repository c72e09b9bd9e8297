"""The output of commands about runs, benches, builds, gates and advice: one module a subject."""
