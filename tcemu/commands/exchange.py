"""What `tcemu sanitize` found, and the same in the formats that code hosts read: SARIF 2.1.0 and JUnit's XML."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tcemu.manual import named
from tcemu.version import __version__

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
#: Used in place of a rule's name for findings that no rule of the sanitizer describes.
ERROR, RESULT = "launch-error", "result-depends-on-order"
#: SARIF's words for severities.
_LEVELS = {"error": "error", "warning": "warning", "hint": "note"}


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: the rule, the text, where, and what it conflicts with."""

    rule: str
    severity: str
    title: str
    text: str
    #: (file, line, function), or None if no line of the kernel is concerned
    site: tuple[str, int, str] | None = None
    earlier: tuple[str, int, str] | None = None
    #: the argument of tcemu.launch under which it happened
    replay: str = ""

    @property
    def key(self) -> tuple[object, ...]:
        """The same for the same mistake in several launches."""
        return self.rule, self.site, self.earlier


@dataclass
class Checked:
    """A launch, and what is wrong with it."""

    kernel: str
    findings: list[Finding] = field(default_factory=list)
    #: what the search covered, in words
    covered: str = ""
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        """Whether an error was found, not only hints."""
        return any(each.severity == "error" for each in self.findings)


def as_sarif(done: Sequence[Checked], what: str) -> str:
    """A log with one run; each mistake is a result, at the kernel's line."""
    findings = list({each.key: each for check in done for each in check.findings}.values())
    rules = list(dict.fromkeys(each.rule for each in findings))
    driver = {"name": "tcemu", "version": __version__, "rules": [_rule(rule) for rule in rules]}
    results = [_result(each, rules.index(each.rule), what) for each in findings]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(name: str) -> dict[str, Any]:
    from tcemu.sanitizer import RULES

    known = RULES.get(name)
    if known is None:
        description = "The result depends on the order." if name == RESULT else "The launch did not finish."
        return {"id": name, "shortDescription": {"text": description}}
    return {
        "id": name,
        "shortDescription": {"text": known.title},
        "fullDescription": {"text": f"{known.rule} ({named(known.section)})"},
        "help": {"text": known.fix},
        "defaultConfiguration": {"level": _LEVELS[known.severity]},
    }


def _result(finding: Finding, number: int, what: str) -> dict[str, Any]:
    file, colon, function = what.rpartition(":")
    site = finding.site or (file if colon and function.isidentifier() else what, 1, "")
    made: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": number,
        "level": _LEVELS[finding.severity],
        "message": {"text": finding.text},
        "locations": [_location(site)],
    }
    if finding.earlier is not None:
        made["relatedLocations"] = [{**_location(finding.earlier), "id": 1, "message": {"text": "conflicts with this"}}]
    if finding.replay:
        made["properties"] = {"replay": f"tcemu.launch(..., {finding.replay})"}
    return made


def _location(site: tuple[str, int, str]) -> dict[str, Any]:
    file, line, function = site
    place = {"artifactLocation": {"uri": _uri(file)}, "region": {"startLine": max(line, 1)}}
    return {"physicalLocation": place} | ({"logicalLocations": [{"name": function}]} if function else {})


def _uri(file: str) -> str:
    """Relative to the current folder, as code hosts want it, if the file is below."""
    path = Path(file).resolve()
    here = Path.cwd()
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else path.as_uri()


def as_junit(done: Sequence[Checked], what: str) -> str:
    """A suite with one case for each launch; hints are its output, errors its failures."""
    suite = ElementTree.Element(
        "testsuite",
        name="tcemu sanitize",
        tests=str(len(done)),
        failures=str(sum(check.failed for check in done)),
        errors="0",
        skipped="0",
        time=f"{sum(check.seconds for check in done):.3f}",
    )
    for number, check in enumerate(done, 1):
        name = f"{check.kernel} (launch {number})"
        case = ElementTree.SubElement(suite, "testcase", classname=what, name=name, time=f"{check.seconds:.3f}")
        errors = [each for each in check.findings if each.severity == "error"]
        if errors:
            failure = ElementTree.SubElement(case, "failure", type=errors[0].rule, message=errors[0].title)
            failure.text = _plain("\n\n".join(each.text for each in errors))
        texts = [check.covered, *(each.text for each in check.findings if each.severity != "error")]
        ElementTree.SubElement(case, "system-out").text = _plain("\n\n".join(filter(None, texts)))
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _plain(text: str) -> str:
    """Without the control characters that XML does not have."""
    return "".join(each for each in text if each >= " " or each in "\n\t")
