"""``python -m toolkit`` is ``pinproof``."""

from toolkit.cli.main import main

main()
