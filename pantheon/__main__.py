"""`python -m pantheon`."""

from pantheon.cli import main

if __name__ == "__main__":
    main()
