"""``python -m fastdp.cli``: the same as the command ``fastdp``."""

import sys

from fastdp.cli import main

if __name__ == "__main__":
    sys.exit(main())
