"""``python -m lowwater``: the command line, where the script is not on the path."""

import sys

from lowwater.detector.cli.main import main

sys.exit(main())
