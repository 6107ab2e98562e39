"""Leakage checks with verdicts, coverage and evidence."""

from quantattn.audit.encoder_cutoffs import check_encoder_cutoffs
from quantattn.audit.gradient import check_gradient, later_gradient
from quantattn.audit.information_sets import check_information_sets
from quantattn.audit.purging import check_purging
from quantattn.audit.result import CheckResult, Verdict, audit_table, overall_verdict
from quantattn.audit.streaming import check_streaming
from quantattn.audit.truncation import TruncationInputs, check_truncation
from quantattn.audit.visibility import check_visibility

__all__ = [
    "CheckResult",
    "TruncationInputs",
    "Verdict",
    "audit_table",
    "check_encoder_cutoffs",
    "check_gradient",
    "check_information_sets",
    "check_purging",
    "check_streaming",
    "check_truncation",
    "check_visibility",
    "later_gradient",
    "overall_verdict",
]
