"""The findings of `tritone doctor` as text. Runs in our process."""

from __future__ import annotations

from collections.abc import Sequence

from tritone.doctor import Finding


def doctor_table(findings: Sequence[Finding]) -> str:
    """A line for each finding, and below it what to do."""
    width = max(len(finding.name) for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{finding.status:<4}  {finding.name:<{width}}  {finding.found}")
        if finding.advice:
            lines.append(f"{'':{width + 6}}  -> {finding.advice}")
    return "\n".join(lines)
