"""Defaults of all parameters, as their classes declare them, for conf/config.yaml to start from."""

from hydra.core.config_store import ConfigStore

from explearn_study.params import Params

# DVC has a stage for each of the studies: none unless a profile lists it.
ConfigStore.instance().store("declared", Params.model_construct().model_dump(mode="json", exclude={"studies"}))
