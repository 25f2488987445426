"""`python -m sleipnir`: the `sleipnir` command without its script."""

from sleipnir.scheduler.cli.app import main

if __name__ == "__main__":
    main()
