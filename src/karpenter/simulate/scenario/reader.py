"""Reads a scenario with all its files, or says everything that is wrong with them.

Nothing of a scenario is run before all of it has been read, and what is read is handed on: a run
opens no file, so a worker needs nothing but what it is given.
"""

import glob
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path as FilePath
from typing import Any, Final

import msgspec

from karpenter.admission.errors import render_path
from karpenter.api.meta import JsonObject
from karpenter.cloud.kwok import catalogue
from karpenter.cloud.kwok.entries import CatalogueError
from karpenter.cloud.types import InstanceType
from karpenter.manifests.errors import ManifestError
from karpenter.manifests.positions import Path
from karpenter.manifests.reader import Document, read
from karpenter.model.quantity import QuantityError
from karpenter.os_errors import os_reason
from karpenter.simulate.amounts import Samples
from karpenter.simulate.chance import Chance
from karpenter.simulate.demand.generators import Demand
from karpenter.simulate.demand.objects import budget, scaled_object
from karpenter.simulate.demand.summary import summary_of
from karpenter.simulate.demand.tables import DataError, column_of
from karpenter.simulate.engine.price_moves import told
from karpenter.simulate.lengths import is_length, seconds
from karpenter.simulate.scenario.checks import TOO_LATE, checked, is_within_years, start_of
from karpenter.simulate.scenario.data_files import data_files, recordings, spread_columns
from karpenter.simulate.scenario.models import (
    API_VERSION,
    KIND,
    LENGTH_MEANS,
    Scenario,
    Variant,
)
from karpenter.simulate.scenario.objects import ObjectChecker, Remark
from karpenter.simulate.scenario.schema import Finding, findings
from karpenter.simulate.variants import (
    NoTargetError,
    ResolvedVariant,
    is_target,
    merged,
    named_variants,
    resolved,
)

MOST_PODS: Final = 100_000
_MOST_BYTES: Final = 1024 * 2**20
_UNKNOWN_END: Final = "36500d"  # in place of an end that cannot be read, which is said by itself


class ScenarioError(Exception):
    """A scenario that cannot be run; each problem is a sentence with file and line."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says in place of the file, and what it allows."""

    seed: int | None = None
    until: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    instance_types: str | None = None
    allow_outside: bool = False
    is_large: bool = False


@dataclass(frozen=True, slots=True)
class Loaded:
    """A scenario with everything that its runs need."""

    scenario: Scenario
    name: str  # of the file
    text: str
    sha256: str
    demand_sha256: str
    seed: int
    start: datetime
    until: float
    objects: tuple[JsonObject, ...]
    variants: tuple[ResolvedVariant, ...]
    files: Mapping[str, bytes]
    manifests: Mapping[str, Sequence[JsonObject]]
    samples: Samples
    catalogue: tuple[str, bytes] | None  # name and content of the instance-types file
    warnings: tuple[str, ...]

    def types(self) -> tuple[InstanceType, ...]:
        """What the cloud sells."""
        if self.catalogue is None:
            return catalogue.built_in()
        name, data = self.catalogue
        return catalogue.load(data, name)


def is_scenario(document: Document) -> bool:
    """Whether a document is a scenario, of whatever version."""
    group = str(document.api_version or API_VERSION).partition("/")[0]
    return document.kind == KIND and group == API_VERSION.partition("/")[0]


def load(name: str, data: bytes, folder: FilePath, options: Options) -> Loaded:
    """Read a scenario and all that it names.

    Args:
        name: the file in messages.
        data: its content.
        folder: where the files that it names are.
        options: of the command line.

    Raises:
        ScenarioError: something is wrong.
    """
    return _Reader(name, data, folder, options).load()


@dataclass(slots=True)
class _Reader:
    """The reading of one scenario, and what is wrong with it so far."""

    name: str
    data: bytes
    folder: FilePath
    options: Options
    problems: list[tuple[int, str]] = field(default_factory=list)  # line in the scenario, sentence
    warnings: list[str] = field(default_factory=list)
    pointed_out: set[str] = field(default_factory=set)  # of objects as they stand in files
    content: dict[str, bytes] = field(default_factory=dict)  # path -> what was read
    kept: dict[str, list[int]] = field(default_factory=dict)  # list -> index in the file

    def load(self) -> Loaded:
        document, others = self._documents()
        scenario = self._scenario(document)
        files = self._files(document, scenario)
        samples = self._samples(scenario, files)
        chosen = self._catalogue(document, scenario)
        checker = ObjectChecker(scenario.provider.name)
        objects = self._objects(document, scenario, others, checker)
        manifests = self._manifests(document, scenario, checker)
        variants = self._variants(document, scenario, objects, manifests, checker)
        self._judge_steps(document, scenario, objects, checker)
        self._judge_workloads(document, scenario, checker)
        types = catalogue.built_in() if chosen is None else catalogue.load(chosen[1], chosen[0])
        added = [obj for each in manifests.values() for obj in each]
        for problem in checked(scenario, objects=objects, added=added, types=types):
            self._add(document, problem.path, problem.text)
        self._judge_prices(scenario, files)
        self._end_if_wrong()
        scenario = self._ending(scenario)
        start = datetime.fromisoformat(scenario.start.replace("Z", "+00:00"))
        until = seconds(scenario.until)
        demand = Demand(scenario, Chance(scenario.seed), samples, files, until, start)
        try:
            summary = summary_of(demand)
        except DataError as error:
            self._plain(str(error))
            self._end_if_wrong()
            raise
        if summary.most_pods > MOST_PODS and not self.options.is_large:
            text = (
                f"up to {summary.most_pods:,} pods exist at once, and {MOST_PODS:,} are the most;"
                " --large allows more"
            )
            self._add(document, ("workloads",), text)
        self._end_if_wrong()
        return Loaded(
            scenario=scenario,
            name=self.name,
            text=document.source.text,
            sha256=self._digest(),
            demand_sha256=summary.sha256,
            seed=scenario.seed,
            start=start,
            until=until,
            objects=tuple(objects),
            variants=tuple(variants),
            files=files,
            manifests=manifests,
            samples=samples,
            catalogue=chosen,
            warnings=(*dict.fromkeys(self.warnings), *summary.warnings),
        )

    # --- The document

    def _documents(self) -> tuple[Document, list[Document]]:
        try:
            documents = read(self.data, self.name)
        except ManifestError as error:
            raise ScenarioError([str(error)]) from None
        found = [document for document in documents if is_scenario(document)]
        if len(found) != 1:
            count = "no document" if not found else f"{len(found)} documents"
            line = found[1].line() if found else 1
            text = f"{self.name}:{line}: {count} of kind {KIND}; exactly one is needed"
            raise ScenarioError([text])
        return found[0], [document for document in documents if document is not found[0]]

    def _scenario(self, document: Document) -> Scenario:
        """The scenario as far as its structure is right, so that the rest can be judged as well."""
        data = dict(document.data)
        wrong = findings(data)
        for each in wrong:
            self._add(document, each.path, each.problem)
        data = self._without(data, wrong)
        scenario = msgspec.convert(data, Scenario)
        changes: dict[str, Any] = {}
        if self.options.seed is not None:
            changes["seed"] = self.options.seed
        if self.options.settings:
            changes["settings"] = {**scenario.settings, **self.options.settings}
            changes["compare"] = [self._set(each) for each in scenario.compare]
            changes["matrix"] = {
                axis: [self._set(each) for each in variants]
                for axis, variants in scenario.matrix.items()
            }
        return msgspec.structs.replace(scenario, **changes)

    def _set(self, variant: Variant) -> Variant:
        """A variant with the settings of the command line, which stand above its own."""
        settings = {**variant.settings, **self.options.settings}
        return msgspec.structs.replace(variant, settings=settings)

    def _ending(self, scenario: Scenario) -> Scenario:
        """The scenario with the end that the command line asks for; what comes later is left out."""
        until = self.options.until
        if until is None:
            return scenario
        if not is_length(until):
            self._plain(f"--until {until!r} is not {LENGTH_MEANS}")
        elif seconds(until) <= seconds(scenario.warmup):
            text = f"--until {until}: the warm-up of {self.name} takes {scenario.warmup}"
            self._plain(text if seconds(until) else f"--until {until}: nothing would be run")
        elif (start := start_of(scenario)) and not is_within_years(start, seconds(until)):
            self._plain(f"--until {until}: after {scenario.start} that is {TOO_LATE}")
        self._end_if_wrong()
        return msgspec.structs.replace(scenario, until=until)

    def _without(self, data: dict[str, Any], wrong: Sequence[Finding]) -> dict[str, Any]:
        """The document without the fields and the entries of lists that are wrong."""
        whole = {each.path[0] for each in wrong if len(each.path) == 1}
        entries = {
            (each.path[0], each.path[1])
            for each in wrong
            if len(each.path) > 1 and isinstance(each.path[1], int)
        }
        whole |= {each.path[0] for each in wrong if each.path[:2] not in entries and each.path}
        left: dict[str, Any] = {}
        for name, value in data.items():
            if name in whole:
                continue
            if isinstance(value, list):
                indexes = [i for i in range(len(value)) if (name, i) not in entries]
                self.kept[name] = indexes
                left[name] = [value[index] for index in indexes]
            else:
                left[name] = value
        # What every scenario has, so that the rest can be read without it
        defaults = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": "unnamed"},
            "until": _UNKNOWN_END,
        }
        return {**defaults, **left}

    # --- Files

    def _files(self, document: Document, scenario: Scenario) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for path, name in data_files(scenario):
            if name not in found:
                data = self._read(document, path, name)
                if data is not None:
                    found[name] = data
        for path, pattern in recordings(scenario):
            for name in self._matching(document, path, pattern):
                if name not in found and (data := self._read(document, path, name)) is not None:
                    found[name] = data
        return found

    def _matching(self, document: Document, path: Path, name: str) -> list[str]:
        """The files that a pattern means."""
        if not glob.has_magic(name):
            return [name]
        # Unlike ``Path.glob``, this takes patterns that begin with .. or /
        names = sorted(glob.glob(name, root_dir=self.folder, recursive=True))  # noqa: PTH207
        if not names:
            self._add(document, path, f"{name} matches no file")
        return names

    def _samples(self, scenario: Scenario, files: Mapping[str, bytes]) -> Samples:
        found: dict[tuple[str, str], Sequence[float]] = {}
        for _, column in spread_columns(scenario):
            if column.csv in files:
                try:
                    values = column_of(column.csv, files[column.csv], column.column)
                    found[column.csv, column.column] = values
                except DataError as error:
                    self._plain(str(error))
        return found

    def _judge_prices(self, scenario: Scenario, files: Mapping[str, bytes]) -> None:
        """Read the series of prices once, for their errors."""
        variants = [*scenario.compare, *(v for each in scenario.matrix.values() for v in each)]
        prices = [*scenario.prices, *(price for each in variants for price in each.prices or ())]
        for price in prices:
            if price.series is not None and price.series.csv in files:
                try:
                    told(price.series, files[price.series.csv])
                except DataError as error:
                    self._plain(str(error))

    def _catalogue(self, document: Document, scenario: Scenario) -> tuple[str, bytes] | None:
        named = self.options.instance_types
        if named is not None:
            try:
                data: bytes | None = FilePath(named).read_bytes()
            except OSError as error:
                self._plain(f"{named}: {os_reason(error)}")
                data = None
        else:
            named = scenario.provider.instance_types
            if named is None:
                return None
            data = self._read(document, ("provider", "instanceTypes"), named)
        if data is None:
            return None
        try:
            catalogue.load(data, named)
        except CatalogueError as error:
            self._plain(str(error))
            return None
        self.content[named] = data
        return named, data

    def _read(self, document: Document, path: Path, name: str) -> bytes | None:
        file = self._inside(document, path, self.folder / name, name)
        if file is None:
            return None
        try:
            if file.stat().st_size > _MOST_BYTES:
                self._add(document, path, f"{name} is larger than a gibibyte")
                return None
            data = file.read_bytes()
        except OSError as error:
            self._add(document, path, f"{name}: {os_reason(error)}")
            return None
        self.content[name] = data
        return data

    def _inside(self, document: Document, path: Path, file: FilePath, name: str) -> FilePath | None:
        """The file, unless it is outside the folder and that is not allowed."""
        try:
            real = file.resolve()
        except (OSError, RuntimeError, ValueError) as error:
            self._add(document, path, f"{name!r} names no file: {error}")
            return None
        if self.options.allow_outside or real.is_relative_to(self.folder.resolve()):
            return real
        text = f"{name} is outside the folder of the scenario; --allow-outside lets it be read"
        self._add(document, path, text)
        return None

    # --- Objects

    def _objects(
        self,
        document: Document,
        scenario: Scenario,
        others: Sequence[Document],
        checker: ObjectChecker,
    ) -> list[JsonObject]:
        found: list[JsonObject] = []
        for other in others:
            self._judge(other, other.data, (), checker)
            found.append(other.data)
        for index, obj in enumerate(scenario.objects):
            self._judge(document, obj, ("objects", index), checker)
            found.append(obj)
        for index, name in enumerate(scenario.include):
            found += self._included(document, ("include", index), name, checker)
        return [obj for obj in found if isinstance((obj.get("metadata") or {}), dict)]

    def _included(
        self, document: Document, path: Path, name: str, checker: ObjectChecker
    ) -> list[JsonObject]:
        """The objects of the files that a pattern means."""
        found: list[JsonObject] = []
        for each in self._matching(document, path, name):
            data = self._read(document, path, each)
            try:
                documents = [] if data is None else read(data, each)
            except ManifestError as error:
                self._plain(str(error))
                continue
            for other in documents:
                if is_scenario(other):
                    self._add(document, path, f"{each} is a scenario itself, not manifests")
                    continue
                self._judge(other, other.data, (), checker)
                found.append(other.data)
        return found

    def _manifests(
        self, document: Document, scenario: Scenario, checker: ObjectChecker
    ) -> dict[str, Sequence[JsonObject]]:
        """The objects of files that steps apply and variants add."""
        found: dict[str, Sequence[JsonObject]] = {}
        named: list[tuple[Path, str | JsonObject]] = [
            (("timeline", index, "apply", number), each)
            for index, step in enumerate(scenario.timeline)
            for number, each in enumerate(step.apply or ())
        ]
        named += [
            (("compare", index, "add", number), each)
            for index, variant in enumerate(scenario.compare)
            for number, each in enumerate(variant.add)
        ]
        named += [
            (("matrix", axis, index, "add", number), each)
            for axis, variants in scenario.matrix.items()
            for index, variant in enumerate(variants)
            for number, each in enumerate(variant.add)
        ]
        for path, each in named:
            if not isinstance(each, str):
                self._judge(document, each, path, checker)
            elif each not in found:
                found[each] = self._included(document, path, each, checker)
        return found

    def _variants(
        self,
        document: Document,
        scenario: Scenario,
        objects: Sequence[JsonObject],
        manifests: Mapping[str, Sequence[JsonObject]],
        checker: ObjectChecker,
    ) -> list[ResolvedVariant]:
        found = []
        before = {id(obj) for obj in objects}
        for index, variant in enumerate(named_variants(scenario)):
            path: Path = ("compare", index) if scenario.compare else ("matrix",)
            try:
                made = resolved(scenario, objects, variant, manifests)
            except NoTargetError as error:
                self._add(document, path, f"{variant.name}: there is no {error.target} to change")
                continue
            for obj in made.objects:
                if id(obj) not in before and variant.patch:
                    self._judge_part(document, path, obj, checker, f"{variant.name}: ")
            found.append(made)
        return found

    def _judge_steps(
        self,
        document: Document,
        scenario: Scenario,
        objects: Sequence[JsonObject],
        checker: ObjectChecker,
    ) -> None:
        """Point out fields of patches that there are not; what is wrong else is known by then."""
        for index, step in enumerate(scenario.timeline):
            for number, patch in enumerate(step.patch or ()):
                for obj in objects:
                    if is_target(obj, patch.target):
                        changed = checker.remarks(merged(obj, patch.merge))
                        path: Path = ("timeline", index, "patch", number)
                        self._point_out(document, path, [e for e in changed if not e.is_error])

    def _judge_workloads(
        self, document: Document, scenario: Scenario, checker: ObjectChecker
    ) -> None:
        """Judge what workloads are made of, by a Deployment that holds their template."""
        for index, workload in enumerate(scenario.workloads):
            here: Path = ("workloads", index)
            source = "pod" if workload.template is None else "template"
            if getattr(workload, source) is not None:
                try:
                    made = scaled_object(workload, 0)
                except (QuantityError, TypeError, ValueError):
                    continue  # an amount that is none, which is said by itself
                self._judge_part(document, (*here, source), made, checker)
            if workload.pdb is not None:
                self._judge_part(document, (*here, "pdb"), budget(workload), checker)

    def _judge_part(
        self,
        document: Document,
        path: Path,
        obj: JsonObject,
        checker: ObjectChecker,
        prefix: str = "",
    ) -> None:
        """Judge an object that a part of the scenario makes."""
        remarks = list(checker.remarks(obj))
        for each in remarks:
            if each.is_error:
                self._add(document, path, f"{prefix}{each.text}")
        self._point_out(document, path, [e for e in remarks if not e.is_error], prefix)

    def _judge(
        self, document: Document, obj: JsonObject, within: Path, checker: ObjectChecker
    ) -> None:
        for each in checker.remarks(obj):
            line = document.line((*self._as_written(within), *each.path))
            own = line if document.source.name == self.name else len(self.data)
            text = f"{document.source.name}:{line}: {each.text}"
            if each.is_error:
                self.problems.append((own, text))
            else:
                self.pointed_out.add(each.text)
                self.warnings.append(text)

    # --- What is wrong

    def _as_written(self, path: Path) -> Path:
        """The path in the file; entries before it may have been left out."""
        if len(path) > 1 and path[0] in self.kept and isinstance(path[1], int):
            return (path[0], self.kept[str(path[0])][path[1]], *path[2:])
        return path

    def _add(self, document: Document, path: Path, text: str) -> None:
        line, sentence = self._placed(document, path, text)
        self.problems.append((line, sentence))

    def _point_out(
        self, document: Document, path: Path, remarks: Sequence[Remark], prefix: str = ""
    ) -> None:
        """Warn of what a part of the scenario brings, and not of what its object has anyway."""
        for each in remarks:
            if each.text not in self.pointed_out:
                self.warnings.append(self._placed(document, path, f"{prefix}{each.text}")[1])

    def _placed(self, document: Document, path: Path, text: str) -> tuple[int, str]:
        """The line of a field, and the sentence that names both."""
        is_structure = not self.kept
        written = path if is_structure else self._as_written(path)
        line = document.line(written)
        shown = f"{render_path(written)}: " if written else ""
        return line, f"{self.name}:{line}: {shown}{text}"

    def _plain(self, text: str) -> None:
        self.problems.append((len(self.data), text))

    def _end_if_wrong(self) -> None:
        if self.problems:
            ordered = sorted(self.problems, key=lambda each: each[0])
            raise ScenarioError(list(dict.fromkeys(text for _, text in ordered)))

    def _digest(self) -> str:
        found = hashlib.sha256(self.data)
        for name in sorted(self.content):
            found.update(b"\0" + name.encode() + b"\0" + self.content[name])
        return found.hexdigest()


def scenarios_in(path: FilePath) -> list[FilePath]:
    """The file itself, or those of a folder that hold a scenario, by name.

    Raises:
        OSError: it cannot be read.
    """
    if not path.is_dir():
        return [path]
    found = []
    for file in sorted(path.iterdir()):
        if file.suffix in (".yaml", ".yml") and not file.name.startswith("."):
            try:
                documents = read(file.read_bytes(), str(file))
            except ManifestError:
                found.append(file)  # what is wrong with it is said when it is loaded
                continue
            if any(is_scenario(document) for document in documents):
                found.append(file)
    return found
