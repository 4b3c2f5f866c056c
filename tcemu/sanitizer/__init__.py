"""An observer of the machine that reports undefined behaviour and races. Each module checks one set of rules.

    result = tcemu.launch(kernel, ..., sanitizer="collect")
    for report in result.reports:
        print(report)

`RULES` is the table of its rules: each rule's id, the rule, the manual's section, and the fix.
"""

from tcemu.sanitizer.report import Earlier, Report, SanitizerWarning
from tcemu.sanitizer.rules import RULES, Rule
from tcemu.sanitizer.sanitizer import MODES, Mode, Sanitizer

__all__ = ["MODES", "RULES", "Earlier", "Mode", "Report", "Rule", "Sanitizer", "SanitizerWarning"]
