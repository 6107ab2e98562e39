"""The sections of the page, one file each: they shape results into words, tables and plots."""

from __future__ import annotations

from quantattn.report.sections.answer import answer_section
from quantattn.report.sections.audit import audit_section
from quantattn.report.sections.comparison import comparison_section
from quantattn.report.sections.key_figures import key_figures
from quantattn.report.sections.outcomes import fold_table, information_section
from quantattn.report.sections.provenance import provenance_section
from quantattn.report.sections.quality import quality_section
from quantattn.report.sections.speed import speed_section

__all__ = [
    "answer_section",
    "audit_section",
    "comparison_section",
    "fold_table",
    "information_section",
    "key_figures",
    "provenance_section",
    "quality_section",
    "speed_section",
]
