"""`python -m rsctl`: the command line of the Python that is named."""

import rsctl_start

rsctl_start.keep_to_own_path()

from rsctl.cli.app import main  # noqa: E402

if __name__ == "__main__":
    main()
