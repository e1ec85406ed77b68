"""`python -m unsay` is the command line."""

from unsay.cli.main import cli

if __name__ == "__main__":
    cli()
