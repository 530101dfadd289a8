"""Which methods `explearn explain` uses, and with which options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explearn.bundle.loading import Bundle, method_of, open_bundle
from explearn.bundle.manifest import is_bundle
from explearn.core.documents import parse_yaml
from explearn.core.errors import ModelError, ParamsError, UnknownNameError
from explearn.methods.info import MethodInfo
from explearn.methods.registry import accepted_options, get_info, make_explainer

if TYPE_CHECKING:
    from explearn.methods.base.explainer import Explainer
    from explearn.model.classifier import Classifier

DEFAULT = "attcat"
"""The method where none is named."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A method, and the folder of its training where it is learned.

    Attributes:
        options: those that come with the bundle.
        bundle: that the method comes from, if any.
    """

    info: MethodInfo
    folder: Path | None
    options: Mapping[str, Any] = field(default_factory=dict)
    bundle: Bundle | None = None

    @property
    def takes_options(self) -> bool:
        """A trained explainer comes with its options; one that goes on from it still takes its own."""
        return self.bundle is None and (self.folder is None or self.info.base is not None)

    @property
    def own_classifier(self) -> Path | None:
        """Folder of the classifier that came with the explainer."""
        if self.bundle is not None:
            return self.bundle.classifier_folder
        return self.folder / "classifier" if self.folder is not None and self.info.own_model else None


def choose(methods: Sequence[str] | None, folders: Sequence[Path]) -> list[Choice]:
    """Methods by name, in the order given; the folders are those of the learned ones among them, in the same order.

    A folder may be a bundle. One bundle and no method stand for the bundle's method, which then need not be learned.

    Args:
        methods: names; None or none: those that the folders hold, DEFAULT where there is no folder either.

    Raises UnknownNameError, ParamsError for a method that comes twice and for a folder too many or too few, and
    ModelError for a folder or bundle that cannot be used, or is another method's.
    """
    bundles = {folder: open_bundle(folder) for folder in folders if is_bundle(folder)}
    if not methods:
        methods = [bundles[f].manifest.method if f in bundles else method_of(f) for f in folders]
    if len(folders) == 1 and bundles and list(methods) == [bundles[folders[0]].manifest.method]:
        return [_bundled(bundles[folders[0]])]
    found = _choose(methods or [DEFAULT], folders)
    for place, choice in enumerate(found):
        if choice.folder in bundles:
            bundled = _bundled(bundles[choice.folder])
            if bundled.info.name != choice.info.name:
                raise ModelError(
                    f"{choice.folder}: a bundle of {bundled.info.name!r}; expected one of {choice.info.name!r}"
                )
            found[place] = bundled
    return found


def _bundled(bundle: Bundle) -> Choice:
    """The choice of a bundle's method. Raises ModelError for one that is not known here."""
    _ = bundle.explainer
    return Choice(get_info(bundle.manifest.method), bundle.explainer_folder, bundle.manifest.options, bundle)


def check_bundles(choices: Sequence[Choice], classifier: Classifier) -> None:
    """Raise ModelError for a bundle that was made for another classifier."""
    for choice in choices:
        if choice.bundle is not None:
            choice.bundle.check_classifier(classifier)


def _choose(methods: Sequence[str], folders: Sequence[Path]) -> list[Choice]:
    infos = [get_info(name) for name in methods]
    for name in methods:
        if list(methods).count(name) > 1:
            raise ParamsError(f"--method: {name!r} comes twice; expected each method once")
    if len(infos) == 1:
        # One method says for itself that it is not learned and has nothing to load.
        if infos[0].learned and not infos[0].ready and not folders:
            raise _no_folder(methods[0])
        if len(folders) > 1:
            raise ParamsError(f"--explainer: got {len(folders)} folders; expected one")
        return [Choice(infos[0], folders[0] if folders else None)]
    trained = [info.name for info in infos if info.learned]
    needing = [info.name for info in infos if info.learned and not info.ready]
    if len(folders) < len(needing):
        raise _no_folder(needing[len(folders)])
    # What explains without a folder, too, has one only where every trained method has.
    takers = trained if len(folders) == len(trained) else needing
    if len(folders) > len(takers):
        counts = {len(names): f"{len(names)} (of {', '.join(names)})" for names in (needing, trained) if names}
        which = " or ".join(counts.values()) or "none: no chosen method is trained"
        raise ParamsError(f"--explainer: got {len(folders)}; expected {which}")
    left = iter(folders)
    return [Choice(info, next(left) if info.name in takers else None) for info in infos]


def _no_folder(name: str) -> ParamsError:
    return ParamsError(f"--explainer: got none; {name!r} is trained, expected the folder of a trained one")


def make(choices: Sequence[Choice], options: Mapping[str, Any], seed: int | None) -> list[Explainer]:
    """The methods with their options (`parse_options`).

    With one method, all options are its own. With several, NAME goes to all that have it and METHOD.NAME to one.

    Raises UnknownNameError for an option that no method has; what `make_explainer` raises.
    """
    given = _dealt(choices, options)
    found = []
    for choice in choices:
        name, own = choice.info.name, given[choice.info.name]
        if seed is not None and choice.takes_options and "seed" in accepted_options(name):
            own.setdefault("seed", seed)
        if own and choice.bundle is not None:
            raise ParamsError(f"options {', '.join(own)} come with the bundle {choice.bundle.folder}; give no others")
        own = {**choice.options, **own}
        found.append(make_explainer(choice.info, own, str(choice.folder) if choice.folder else None))
    return found


def _dealt(choices: Sequence[Choice], options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    given: dict[str, dict[str, Any]] = {choice.info.name: {} for choice in choices}
    if len(choices) == 1:
        return {choices[0].info.name: dict(options)}
    accepted = {c.info.name: accepted_options(c.info.name) if c.takes_options else [] for c in choices}
    for option, value in options.items():
        method, dot, name = option.partition(".")
        if dot and method not in given:
            raise UnknownNameError("method of --option", method, given)
        takers = [method] if dot else [m for m, names in accepted.items() if option in names]
        if not takers:
            known = {name for names in accepted.values() for name in names}
            raise UnknownNameError(f"option of {', '.join(given)}", option, known or ["(none)"])
        for taker in takers:
            given[taker][name if dot else option] = value
    return given


def parse_options(pairs: Sequence[str]) -> dict[str, Any]:
    """NAME=VALUE pairs, values read as YAML. Raises ParamsError for another form."""
    options: dict[str, Any] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise ParamsError(f"--option: got {pair!r}; expected NAME=VALUE")
        if name in options:
            raise ParamsError(f"--option {name}: got it twice; expected each option once")
        try:
            options[name] = parse_yaml(value)
        except ValueError as error:
            raise ParamsError(
                f"--option {name}: got {value[:60]!r}; expected a number, a word or a YAML value ({error})"
            ) from error
    return options
