"""What the emulators of AWS services share: signatures, errors, service models, S3."""
