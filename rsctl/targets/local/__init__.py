"""Jobs on this machine: as plain processes, or as containers under docker compose."""
