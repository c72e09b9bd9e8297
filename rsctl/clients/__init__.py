"""Clients of Google and AWS: endpoints, credentials, retries, known errors, object storage."""
