"""Calls to the clouds: credentials, endpoints, retries, and what to say of their errors."""
