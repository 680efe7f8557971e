from __future__ import annotations

from tritone.doctor import Finding
from tritone.doctor_table import doctor_table


def test_a_line_for_each_finding_and_what_to_do_below_it() -> None:
    findings = [Finding("Python", "ok", "3.11"), Finding("GPU", "warn", "none", "use the CPU")]
    assert doctor_table(findings).splitlines() == [
        "ok    Python  3.11",
        "warn  GPU     none",
        "              -> use the CPU",
    ]
