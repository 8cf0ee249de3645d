"""``python -m cfagg``."""

import sys

from cfagg.cli.main import main

sys.exit(main())
