"""The proof that an image can do its job, at the end of its build and when a replica starts."""
