"""`python -m scheduler.cli`: the `sleipnir` command without its script."""

from scheduler.cli import main

if __name__ == "__main__":
    main()
