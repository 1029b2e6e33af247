"""``python -m gpbounds``: the ``gpbounds`` command, also where its script is not on the path."""

import sys

from gpbounds.cli import main

if __name__ == "__main__":
    sys.exit(main())
