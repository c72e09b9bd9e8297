"""`python -m rsctl`: the command line of the Python that is named."""

from rsctl.cli.app import main

if __name__ == "__main__":
    main()
