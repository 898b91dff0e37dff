"""Every exemption in the registry names a test that exists, and is in docs/scale.md."""

from __future__ import annotations

import re
from pathlib import Path

from stores import KINDS

HERE = Path(__file__).parent
SCALE = HERE.parents[1] / "docs" / "scale.md"


def test_exemptions_name_tests_and_stand_in_the_documentation():
    tests = set(
        re.findall(r"^def (test_\w+)", "".join(path.read_text() for path in HERE.glob("test_*.py")), re.MULTILINE)
    )
    told = " ".join(SCALE.read_text(encoding="utf-8").split())
    for kind in KINDS:
        for test, reason in kind.exempt.items():
            assert test in tests, f"{kind.name} is exempt from {test}, which there is none of"
            assert reason in told, f"docs/scale.md does not say that {kind.name} is exempt because {reason}"
