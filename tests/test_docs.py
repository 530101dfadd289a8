"""Links, parameters and environment variables that the documentation names are there."""

import re
import shlex
from itertools import chain, pairwise

import yaml
from doc_commands import pages
from dvc.utils.hydra import get_hydra_sweeps

from explearn_study.params import Params


def anchors(page):
    """What a code host makes of a page's headings."""
    headings = re.findall(r"^#+ +(.+)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_between_pages_lead_somewhere(repository):
    for page in pages(repository):
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            actual = (page.parent / name).resolve() if name else page
            assert actual.exists(), f"{page.name}: {target}"
            assert not anchor or anchor in anchors(actual), f"{page.name}: {target}"


def commands(repository):
    """The overrides of every `dvc exp run` that the documentation and the profiles name."""
    actual = []
    for path in (repository / "README.md", *sorted((repository / "docs").rglob("*.md"))):
        text = path.read_text(encoding="utf-8")
        actual += re.findall(r"^ *(dvc exp run(?:\\\n|[^#\n])*)", text, re.M)
        actual += re.findall(r"`(dvc exp run[^`]*)`", text)
    for path in sorted((repository / "conf" / "profile").glob("*.yaml")):
        actual += re.findall(r"^# +(dvc exp run.*)$", path.read_text(encoding="utf-8"), re.M)
    overrides = []
    for command in actual:
        words = shlex.split(command.replace("\\\n", " "))
        overrides.append([after for word, after in pairwise(words) if word == "-S"])
    # A variable of the shell, or a profile of one's own.
    open_ended = re.compile(r"\$|profile=mine")
    return sorted({shlex.join(names) for names in overrides if names and not open_ended.search(" ".join(names))})


def test_the_commands_of_the_documentation_are_of_parameters_that_there_are(repository, monkeypatch):
    monkeypatch.syspath_prepend(repository / "scripts")
    from compose_params import compose

    actual = commands(repository)
    assert len(actual) > 10 and "explainer=ivra" in actual
    for overrides in actual:
        try:
            # Of `seed=13,14` DVC makes two runs.
            for run in get_hydra_sweeps({"": shlex.split(overrides)}):
                Params.model_validate(yaml.safe_load(compose(run[""])))
        except (Exception, SystemExit) as error:
            raise AssertionError(f"dvc exp run with {overrides}") from error


def test_the_page_of_environment_variables_has_all_that_there_are(repository):
    variable = re.compile(r"\bEXPLEARN_[A-Z_]*[A-Z]\b")
    code = [*(repository / "src").rglob("*.py"), *(repository / "stages").rglob("*.py")]
    read = set(chain(*(variable.findall(path.read_text(encoding="utf-8")) for path in code)))
    page = (repository / "docs/environment.md").read_text(encoding="utf-8")
    assert set(variable.findall(page)) == read
