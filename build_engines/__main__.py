"""`python -m build_engines`."""

from __future__ import annotations

import sys

from build_engines.command import main

if __name__ == "__main__":
    sys.exit(main())
