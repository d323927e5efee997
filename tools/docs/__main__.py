"""The two commands."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def main(arguments: list[str] | None = None) -> int:
    """Build or check the site."""
    parser = argparse.ArgumentParser(prog="python -m tools.docs")
    parser.add_argument("command", choices=("build", "check"))
    parser.add_argument("site", type=Path)
    parser.add_argument("--screenshots", type=Path, metavar="FOLDER")
    options = parser.parse_args(arguments)
    if options.command == "build":
        from . import site

        return site.build(options.site)
    from . import check

    return check.main(options.site, options.screenshots)


if __name__ == "__main__":
    sys.exit(main())
