"""``python -m lowwater.detector.cli``."""

import sys

from lowwater.detector.cli.main import main

sys.exit(main())
