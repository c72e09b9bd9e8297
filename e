error: cannot use /tmp/sec/tm/h/runs.db: its disk is full
    -> free some space, or set RSCTL_HOME to another folder
