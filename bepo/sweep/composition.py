"""Many configs composed as Hydra composes one: each file is read once, and what configs begin with is merged once.

Hydra reads every file anew for every config, and merges its own part into it, which is a third of its time.
The classes that it composes with are private to it; ``bepo.sweep.studies`` asks Hydra itself where these fail, and
``tests/sweep/test_composition.py`` holds both against each other.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository, ConfigRepository
from hydra._internal.config_search_path_impl import ConfigSearchPathImpl
from hydra._internal.defaults_list import create_defaults_list
from hydra.core.plugins import Plugins
from omegaconf import DictConfig, OmegaConf

from bepo.sweep.space import parse

_Place = tuple[str, str]
"""A config file or a registered dataclass, such as ``credit/grpo``, and the dotted name under which it is merged."""
_Places = tuple[_Place, ...]


class Composer:
    """Composes the files of some folders; a file that changes after it was read is not read again.

    ``folders`` are searched in this order. ``hydra`` says whether configs have Hydra's own part, ``config.hydra``,
    without what it says of the running program.
    """

    def __init__(self, folders: Sequence[Path], hydra: bool) -> None:
        Plugins.instance()  # which register the kinds of places that configs are read from
        path = ConfigSearchPathImpl()
        for provider, place in [("hydra", "pkg://hydra.conf"), *((str(f), f"file://{f}") for f in folders)]:
            path.append(provider, place)
        path.append("schema", "structured://")
        self._files, self._hydra = CachingConfigRepository(ConfigRepository(path)), hydra
        self._merged: dict[_Places, DictConfig] = {(): OmegaConf.create()}
        self._begun: set[_Places] = set()  # what some config began with

    def compose(self, name: str, overrides: Sequence[str]) -> DictConfig:
        """Return the config of a file with overrides, which must not be sweeps. Raises what Hydra raises."""
        parsed = parse(overrides)
        found = create_defaults_list(self._files, name, parsed, prepend_hydra=True, skip_missing=False)
        places = tuple((str(d.config_path), d.package or "") for d in found.defaults)
        config = self._merge(places if self._hydra else tuple(p for p in places if not p[0].startswith("hydra/")))
        OmegaConf.set_struct(config, True)
        values = [o for o in found.config_overrides if self._hydra or not o.is_hydra_override()]
        ConfigLoaderImpl._apply_overrides_to_config(values, config)
        return config

    def _merge(self, places: _Places) -> DictConfig:
        """Merge what is at these places, in their order; keep what another config began with, too."""
        beginnings = [places[:length] for length in range(len(places), -1, -1)]
        kept = next(beginning for beginning in beginnings if beginning in self._merged)
        shared = next((beginning for beginning in beginnings if beginning in self._begun), ())
        config = copy.deepcopy(self._merged[kept])
        for number, place in enumerate(places[len(kept) :], start=len(kept) + 1):
            config.merge_with(self._content(*place))
            if number == len(shared):
                self._merged[shared] = copy.deepcopy(config)
        self._begun.update(beginnings)
        return config

    def _content(self, path: str, package: str) -> DictConfig:
        loaded = self._files.load_config(path)
        assert loaded is not None, path
        content = ConfigLoaderImpl._embed_result_config(loaded, package).config
        assert isinstance(content, DictConfig)
        if "hydra" not in content or self._hydra:
            return content
        return OmegaConf.masked_copy(content, [str(key) for key in content if key != "hydra"])
