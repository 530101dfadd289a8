"""Defaults of all parameters, as their classes declare them, for conf/config.yaml to start from; and the rosters that
come with the library, beside those in conf/roster/."""

from hydra.core.config_store import ConfigStore

from explearn.methods.defaults import ROSTERS, roster
from explearn_study.params import Params

# DVC has a stage for each of the studies: none unless a profile lists it.
ConfigStore.instance().store("declared", Params.model_construct().model_dump(mode="json", exclude={"studies"}))

for name in ROSTERS:
    methods = {}
    for method, options in roster(name).items():
        methods[method] = {"options": options} if options else {}
    ConfigStore.instance().store(name, {"roster": name, "methods": methods}, group="roster", package="_global_")
