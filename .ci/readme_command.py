"""Print a command of the README, so that CI runs the command that a reader runs.

``demo`` and ``test`` name the shell blocks that follow the comments ``<!-- command: demo -->`` and
``<!-- command: test -->``; ``--until COMMAND`` omits the last part, ``&& COMMAND``, so that CI can run it with options.
"""

import argparse
import re
import sys
from pathlib import Path

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("name")
parser.add_argument("--until")
arguments = parser.parse_args()
text = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
block = re.search(rf"<!-- command: {arguments.name} -->\s*```\w*\n(.+?)\n```", text, re.DOTALL)
if not block:
    raise SystemExit(f"README.md has no command {arguments.name!r}")
command = block[1].strip()
if arguments.until:
    command, last = command.rsplit("&&", 1)
    if last.strip() != arguments.until:
        raise SystemExit(
            f"expected the README's {arguments.name} command to end in '&& {arguments.until}', got {last!r}"
        )
sys.stdout.reconfigure(newline="\n")  # for a shell, also on Windows
print(command)
