"""``python -m gpbounds.cli``."""

import sys

from gpbounds.cli import main

sys.exit(main())
