"""Removes what has ended: runs, benches, images that rsctl built, buckets of rehearsals."""
