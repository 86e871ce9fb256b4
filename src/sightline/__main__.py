"""`python -m sightline`: the command line, for environments whose scripts are not on the search path."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        # `python -m` puts the current folder first on the path; a downloaded folder may hold a file such as torch.py.
        sys.path.pop(0)
    from sightline.cli import main

    main()
