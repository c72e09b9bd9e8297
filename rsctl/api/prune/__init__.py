"""Removes ended runs and benches, images that rsctl built, and buckets of rehearsals."""
