"""What the emulators of Google Cloud services share: credentials, errors, Cloud Storage."""
