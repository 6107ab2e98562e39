"""Where the run came from: data and its caveats, code, versions, seeds, machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quantattn.report import formatting
from quantattn.report.loading import RunResults
from quantattn.report.schema import IngestedFile, Manifest, parse_instant
from quantattn.report.sections.audit import label_words
from quantattn.report.sections.speed import machine_line
from quantattn.report.tables import Cell, Column, Table


@dataclass(frozen=True)
class Provenance:
    """The section on provenance.

    Attributes
    ----------
    caveats : tuple of str
    facts : tuple of (str, str)
        Label and text, in reading order.
    hashes : tuple of (str, str)
        What was hashed, and its SHA-256.
    tables : tuple of Table
        Counts and versions.
    study : str
        The resolved study file.
    """

    caveats: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    hashes: tuple[tuple[str, str], ...]
    tables: tuple[Table, ...]
    study: str


def provenance_section(run: RunResults) -> Provenance:
    """Shape the section on provenance."""
    manifest = run.manifest
    return Provenance(
        caveats=manifest.caveats,
        facts=_facts(manifest),
        hashes=_hashes(manifest),
        tables=_tables(manifest),
        study=run.study_text.strip("\n"),
    )


def _facts(manifest: Manifest) -> tuple[tuple[str, str], ...]:
    facts = [
        ("quantattn", manifest.quantattn),
        ("Command", _command(manifest.command)),
        ("Run of", _created(manifest.created)),
        ("Seed", "" if manifest.seed is None else str(manifest.seed)),
        ("Threads", _pairs(manifest.threads)),
        ("Machine", machine_line(manifest.machine)),
        (
            "Peak memory",
            ""
            if manifest.peak_memory_gib is None
            else f"{formatting.significant(manifest.peak_memory_gib)}{formatting.SPACE}GiB",
        ),
        ("Total time", _total(manifest)),
    ]
    return tuple((label, text) for label, text in facts if text)


def _command(command: Any) -> str:
    if isinstance(command, list):
        return " ".join(str(part) for part in command)
    return "" if command is None else str(command)


def _created(created: str | None) -> str:
    if created is None:
        return ""
    try:
        return formatting.instant(parse_instant(created))
    except ValueError:
        return created


def _pairs(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ", ".join(f"{label_words(str(k))} {formatting.plain(v)}" for k, v in value.items())
    return formatting.plain(value)


def _total(manifest: Manifest) -> str:
    known = [stage.seconds for stage in manifest.stages if stage.seconds is not None]
    return formatting.seconds(sum(known)) if known else ""


def _hashes(manifest: Manifest) -> tuple[tuple[str, str], ...]:
    pairs = [(f"data: {name}", digest) for name, digest in sorted(manifest.data.items())]
    pairs += [("code", manifest.code_hash or ""), ("study", manifest.study_hash or "")]
    return tuple((label, digest) for label, digest in pairs if digest)


def _tables(manifest: Manifest) -> tuple[Table, ...]:
    tables = []
    if manifest.events is not None:
        tables.append(_counts("Events by kind", manifest.events.by_kind, manifest.events.n))
        tables.append(_counts("Events rejected, by reason", manifest.events.rejected, None))
    made = tuple(
        (
            Cell(name),
            Cell(file.format),
            Cell(_options(file)),
            Cell(formatting.count(sum(file.rejected.values()))),
        )
        for name, file in sorted(manifest.ingested.items())
    )
    columns = ("File", "Format", "Options")
    described = (*(Column(name, numeric=False) for name in columns), Column("Rows refused"))
    tables.append(Table("Files of quantattn ingest", described, made))
    if manifest.samples is not None:
        kept = formatting.plural(manifest.samples.n, "sample")
        tables.append(_counts(f"Samples dropped, by reason ({kept} kept)", manifest.samples.dropped, None))
    stages = tuple((Cell(s.stage), Cell(formatting.seconds(s.seconds))) for s in manifest.stages)
    tables.append(Table("Stages of the run", (Column("Stage", numeric=False), Column("Time")), stages))
    versions = tuple((Cell(name), Cell(version)) for name, version in sorted(manifest.versions.items()))
    heads = (Column("Package", numeric=False), Column("Version"))
    tables.append(Table("Versions", heads, versions))
    return tuple(table for table in tables if table.rows)


def _options(file: IngestedFile) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(file.options.items()))


def _counts(caption: str, counts: Mapping[str, int], total: int | None) -> Table:
    rows = [(Cell(name), Cell(formatting.count(n))) for name, n in counts.items()]
    if total is not None:
        rows.append((Cell("all"), Cell(formatting.count(total))))
    elif not rows:
        rows.append((Cell("none"), Cell("0")))
    return Table(caption, (Column("Kind", numeric=False), Column("Count")), tuple(rows))
