"""From files and overrides to a checked Config: Hydra composes, `config.check` judges. No torch."""

from __future__ import annotations

import itertools
import typing
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from kappo.combinations import check
from kappo.config import Config, plain
from kappo.errors import UserError, near_misses

_NOTHING = object()

SHIPPED = Path(__file__).parent / "conf"
CONF = SHIPPED if SHIPPED.is_dir() else Path(__file__).parent.parent / "conf"


def conf_folders() -> list[Path]:
    """Where choices are looked up: ./conf first, then the files that come with kappo."""
    local = Path.cwd() / "conf"
    return [CONF] if not local.is_dir() or local.resolve() == CONF.resolve() else [local, CONF]


def choices(group: str) -> list[str]:
    """The names of a group's files, such as choices("method")."""
    return sorted({path.stem for folder in conf_folders() for path in (folder / group).glob("*.yaml")})


def groups() -> list[str]:
    return sorted({p.name for folder in conf_folders() for p in folder.iterdir() if p.is_dir()})


def register_local_conf() -> None:
    """Let ./conf be searched before the shipped files, in Hydra apps and in compose alike."""
    from hydra.core.config_search_path import ConfigSearchPath
    from hydra.core.plugins import Plugins
    from hydra.plugins.search_path_plugin import SearchPathPlugin

    class LocalConf(SearchPathPlugin):
        def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
            if len(conf_folders()) > 1:
                search_path.prepend("kappo-local", f"file://{conf_folders()[0]}")

    if not any(plugin.__name__ == "LocalConf" for plugin in Plugins.instance().discover(SearchPathPlugin)):
        Plugins.instance().register(LocalConf)


def _with_hydra(config_name: str, overrides: Sequence[str]) -> Any:
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    GlobalHydra.instance().clear()
    register_local_conf()
    try:
        with initialize_config_dir(str(CONF), version_base="1.3"):
            return compose(config_name, overrides=list(overrides))
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(f"the configuration cannot be composed: {str(error).splitlines()[0]}") from None
    except YAMLError as error:
        reason = " ".join(str(error).split())
        raise UserError(f"a file that {config_name} is made of is not valid YAML: {reason}") from None
    except (OSError, ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{config_name} or a file that it is made of cannot be read: {reason}") from None
    finally:
        GlobalHydra.instance().clear()


@lru_cache(maxsize=256)
def _composed(group_overrides: tuple[str, ...], folder: str) -> Any:
    return _with_hydra("config", group_overrides)


@lru_cache(maxsize=1)
def _parser() -> Any:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    return OverridesParser.create()


@lru_cache(maxsize=4096)
def _parse(text: str) -> Any:
    from hydra.errors import HydraException

    try:
        override = _parser().parse_override(text)
    except HydraException as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"override {text!r} cannot be parsed: {reason}. Expected key=value") from None
    if not override.key_or_group or override.is_delete():
        raise UserError(f"override {text!r}: expected key=value, such as k=4")
    return override


def parse_value(text: str) -> Any:
    """The value of an override key=value as Hydra reads it. Raises UserError."""
    return _parse(text).value()


def _values(override: Any) -> list[Any]:
    from hydra.errors import HydraException

    if not override.is_sweep_override():
        return [override.value()]
    try:
        return [_parse(f"x={v}").value() for v in override.sweep_string_iterator()]
    except HydraException:
        raise UserError(
            f"{override.input_line}: expected one value, or a list or range of values to sweep over"
        ) from None


def split_overrides(overrides: Sequence[str]) -> tuple[list[str], dict[str, list[Any]]]:
    """Overrides -> (group choices, {setting: values}); sweeps have several values.

    Raises UserError for what cannot be parsed, an unknown group choice or an unknown setting, with near misses.
    """
    from omegaconf import OmegaConf

    chosen: dict[str, list[Any]] = {}
    scalars: dict[str, list[Any]] = {}
    texts = []
    for text in overrides:
        override = _parse(text)
        key, values = override.key_or_group, _values(override)
        if key.split(".")[0] == "hydra" or key.startswith("hydra/"):
            continue
        if any(isinstance(value, dict) for value in values):
            raise UserError(f"{key} = {values[0]!r}: expected one setting at a time, such as bank.samples_per_prompt=8")
        if key not in groups():
            scalars[key] = values
            continue
        for value in values:
            if value not in choices(key):
                raise UserError(
                    f"{override.get_key_element()} = {value!r}: no file conf/{key}/{value}.yaml; "
                    f"{near_misses(str(value), choices(key))}"
                )
        texts.append(text)
        chosen[override.get_key_element()] = values
    known = _composed(tuple(f"{key}={values[0]}" for key, values in chosen.items()), str(Path.cwd()))
    for key, values in scalars.items():
        if OmegaConf.select(known, key, default=_NOTHING) is _NOTHING:
            paths = _paths(OmegaConf.to_container(known, resolve=False)) + groups()
            raise UserError(f"{key} = {values[0]!r}: no such setting; {near_misses(key, paths)}")
        if OmegaConf.is_dict(OmegaConf.select(known, key)) and values[0] is not None:
            below = [
                path for path in _paths(OmegaConf.to_container(known, resolve=False)) if path.startswith(f"{key}.")
            ]
            way_out = f"set data@validation={values[0]}, or" if key == "validation" else "set"
            raise UserError(f"{key} = {values[0]!r}: a group of settings; {way_out} one of {', '.join(below[:12])}")
    return texts, scalars


def sweep_points(overrides: Sequence[str], sweeping: bool) -> list[list[str]]:
    """The single points of a sweep, as override lists. Raises UserError for a list of values without -m."""
    split_overrides(overrides)
    axes = []
    for text in overrides:
        override = _parse(text)
        if not override.is_sweep_override():
            axes.append([text])
        elif not sweeping:
            raise UserError(f"{text}: several values need -m (a sweep), or brackets for a list: key=[a,b]")
        else:
            axes.append([f"{override.get_key_element()}={v}" for v in override.sweep_string_iterator()])
    return [list(point) for point in itertools.product(*axes)]


def _paths(node: Any, where: str = "") -> list[str]:
    if not isinstance(node, dict):
        return [where]
    return ([where] if where else []) + [
        p for k, v in node.items() for p in _paths(v, f"{where}.{k}" if where else str(k))
    ]


def compose(overrides: Sequence[str], values: Mapping[str, Any] | None = None) -> Config:
    """One checked Config from overrides as on the command line, and further settings by dotted key.

    Composes once per distinct choice of groups; settings go onto a copy. Raises UserError.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    chosen, scalars = split_overrides(overrides)
    several = [text for text in overrides if _parse(text).is_sweep_override()]
    if several:
        raise UserError(f"{several[0]}: one value expected here; sweep with kappo train -m, or list values in a grid")
    node = _composed(tuple(chosen), str(Path.cwd())).copy()
    try:
        for key, options in scalars.items():
            OmegaConf.update(node, key, options[0], force_add=True)
        for key, value in (values or {}).items():
            if OmegaConf.select(node, key, default=_NOTHING) is _NOTHING or isinstance(value, Mapping):
                paths = _paths(OmegaConf.to_container(node, resolve=False))
                raise UserError(f"{key} = {value!r}: no such setting; {near_misses(key, paths)}")
            OmegaConf.update(node, key, value, force_add=True)
        resolved = OmegaConf.to_container(node, resolve=True)
    except OmegaConfBaseException as error:
        raise UserError(f"the configuration cannot be resolved: {str(error).splitlines()[0]}") from None
    return check(typing.cast(Mapping[str, Any], resolved))


def load(path: Path) -> Any:
    """A resolved YAML file as plain data. Raises UserError when it is missing or not YAML."""
    from omegaconf import OmegaConf
    from yaml import YAMLError

    try:
        return OmegaConf.to_container(OmegaConf.load(path), resolve=True)
    except FileNotFoundError:
        raise UserError(f"{path} is missing: it is written when the workflow or the command plans its stages") from None
    except (YAMLError, OSError, ValueError) as error:
        raise UserError(f"{path} is not a readable YAML file: {str(error).splitlines()[0]}") from None


def to_yaml(node: Any) -> str:
    from omegaconf import OmegaConf

    return OmegaConf.to_yaml(OmegaConf.create(plain(node)), sort_keys=True)


def load_study(name: str) -> Any:
    """A study file as plain data; it may build on others through a defaults list."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    node = _with_hydra(f"study/{name}", ())
    if list(node) == ["study"]:
        raise UserError(f"conf/study/{name}.yaml: its first line must be '# @package _global_'")
    try:
        return OmegaConf.to_container(node, resolve=True)
    except OmegaConfBaseException as error:
        raise UserError(f"conf/study/{name}.yaml cannot be resolved: {str(error).splitlines()[0]}") from None
