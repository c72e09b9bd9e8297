"""Why a job makes no progress: reports of its nodes, and who waits for whom."""
