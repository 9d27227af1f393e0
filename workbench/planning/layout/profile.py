"""Target profiles: which layouts and element types a kind of hardware wants. Each is a TOML file.

Built-in profiles are in `profiles/`; the user's own are in the folder
`user_folder()`, under other names.
"""

from __future__ import annotations

import difflib
import re
import shutil
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from workbench.errors import UserError, closest, reading
from workbench.ops import contracts
from workbench.ops.blocked import BLOCKED_LAYOUTS, block_of
from workbench.ops.channels_last import parse_channels_last
from workbench.ops.permuted_blocks import may_be_blocked
from workbench.planning.layout.declared import WEIGHT_LAYOUTS
from workbench.support.files import replacing, settings_folder

BUILT_IN_FOLDER = Path(__file__).parent / "profiles"
FOLDER_VARIABLE = "WORKBENCH_PROFILES"
LAYOUTS = ("NCHW", "NHWC", *BLOCKED_LAYOUTS)
WEIGHTS = WEIGHT_LAYOUTS
DEFAULT = "default"  # in a pair [data, kernel]: the usual kernel for the data's layout, OIHW or HWIO
SUFFIX = ".toml"
_KEYS = ("title", "layout", "weights", "demands")
_PRECISION = "precision"  # the key that may be left out
PRECISIONS = ("float16", "bfloat16", "float32")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_LONGEST_TITLE = 100  # characters
_LARGEST = 1_000_000  # bytes of a file
_SHOWN = 60  # characters of a faulty text that an error quotes


class ProfileError(UserError):
    """A profile does not exist, its file is not valid, or it cannot be written."""


@dataclass(frozen=True)
class Profile:
    """The layouts that one kind of hardware wants.

    name:             as `load_profile` takes it: "npu", or the path of a file.
    layout:           the preferred layout of CNN values ("NHWC").
    weights:          the order of a convolution's weight ("HWOI").
    required_layouts: operators whose image operands must be in one layout, each with it (`demands` in the file).
    kernels:          operators whose demand is a pair [data, kernel], each with the order of its weight.
    precision:        operators that a precision strategy runs in one element type, each with it (`[precision]` in the
                      file); either of the narrower types stands for the one that the strategy is given.

    Only the strategy `blocked` uses a blocked layout ("NCHW8c"); all others take it for NCHW.
    """

    name: str
    title: str
    layout: str
    weights: str
    required_layouts: Mapping[str, str] = field(hash=False)
    kernels: Mapping[str, str] = field(default_factory=dict, hash=False)
    precision: Mapping[str, str] = field(default_factory=dict, hash=False)

    def weights_for(self, op: str) -> str:
        """The order wanted for the operator's weight."""
        return self.kernels.get(op, self.weights)

    def layout_for(self, rank: int, op: str | None = None) -> str | None:
        """The layout wanted for CNN values of that rank, or for operands of `op`: NWC, NHWC, NCDHW, ..."""
        spatial = {3: "W", 4: "HW", 5: "DHW"}.get(rank)
        if spatial is None:
            return None
        layout = self.required_layouts.get(op or "", self.layout)
        return f"N{spatial}C" if layout.endswith("C") else f"NC{spatial}"

    @property
    def block(self) -> int | None:
        """The number of channels in a block, if a blocked layout is wanted or demanded."""
        return next(
            (size for size in map(block_of, (self.layout, *self.required_layouts.values())) if size is not None), None
        )

    def toml(self) -> str:
        """The profile in TOML."""
        import tomli_w  # here, since machines on which layouts are only run need not have it

        table: dict[str, object] = {"title": self.title, "layout": self.layout, "weights": self.weights}
        if set(self.required_layouts.values()) <= {self.layout} and not self.kernels:
            table["demands"] = list(self.required_layouts)
        else:
            table["demands"] = {op: self._demand(op) for op in self.required_layouts}
        if self.precision:
            table[_PRECISION] = dict(self.precision)
        return tomli_w.dumps(table)

    def _demand(self, op: str) -> str | list[str]:
        data = self.required_layouts[op]
        return [data, self.kernels[op]] if op in self.kernels else data


def parse_demand(op: str, demand: object, what: str) -> tuple[str, str | None]:
    """Parse a demand, "NHWC" or, as in TVM, [data, kernel]: the data's layout and the kernel's order, if given.

    Raises ProfileError, whose sentence begins with `what`.
    """
    parts = demand if isinstance(demand, list) else [demand]
    names = [part for part in parts if isinstance(part, str)]
    if len(names) != len(parts) or len(names) not in (1, 2):
        raise ProfileError(f'{what}: the layout of {op} is one name, or a pair such as ["NHWC", "HWIO"]; change it')
    data = names[0]
    if data == DEFAULT:
        raise ProfileError(f"{what}: the data of {op} cannot be default, only its kernel can; name a layout")
    if len(names) == 1:
        return data, None
    last = data.endswith("C")
    kernel = ("HWIO" if last else "OIHW") if names[1] == DEFAULT else names[1]
    _check_one_of(what, f"the kernel of {op}", kernel, (*WEIGHTS, DEFAULT))
    if names[1] != DEFAULT and op != "Conv":
        raise ProfileError(f"{what}: only Conv has kernels in another order, not {op}; write default for it")
    if not last and kernel != "OIHW":
        raise ProfileError(f"{what}: a kernel for {data} is OIHW, as in ONNX, not {kernel}; write default")
    return data, kernel if op == "Conv" else None


def user_folder() -> Path:
    """The folder of the user's own profiles: $WORKBENCH_PROFILES, or graph-workbench/profiles in their settings."""
    return settings_folder("profiles", FOLDER_VARIABLE)


@cache
def demandable_operators() -> tuple[str, ...]:
    """Operators of which a profile may demand a layout, layout-sensitive ones first."""
    kinds = ("sensitive", "remapped", "agnostic")
    results = [(kinds.index(c.layout.kind), op) for op, c in contracts().items() if c.layout.kind in kinds]
    own_forms = {op for _, op in results if parse_channels_last(*op.rpartition(".")[::2]) is not None}
    return tuple(op for _, op in sorted(results) if op != "Transpose" and op not in own_forms)


def built_in_names() -> tuple[str, ...]:
    return _names_in(BUILT_IN_FOLDER)


def machine_target() -> str:
    """The built-in profile for this machine: "cuda" where it has an NVIDIA GPU, else "cpu"."""
    return "cuda" if Path("/dev/nvidiactl").exists() or shutil.which("nvidia-smi") is not None else "cpu"


def profile_names() -> tuple[str, ...]:
    """The built-in profiles, then the user's own."""
    own = _names_in(user_folder())
    return (*built_in_names(), *(name for name in own if name not in built_in_names()))


def profiles() -> tuple[dict[str, Profile], dict[str, str]]:
    """The profiles by name, and for each file that cannot be used a sentence that says why."""
    result, faults = {}, {}
    for name in profile_names():
        try:
            result[name] = load_profile(name)
        except ProfileError as error:
            faults[name] = str(error)
    for name in set(_names_in(user_folder())) & set(built_in_names()):
        path = user_folder() / f"{name}{SUFFIX}"
        faults[name] = f"'{path}' is not used, since '{name}' is a built-in profile; give the file another name"
    return result, faults


def load_profile(name: str) -> Profile:
    """The profile of that name, built-in or the user's own, or that in the file, if the name ends in ".toml".

    Raises ProfileError with one sentence.
    """
    if name.endswith(SUFFIX):
        return _read(name, Path(name))
    if name not in profile_names():
        raise ProfileError(f"there is no target profile '{name}'{closest(name, profile_names())}")
    folder = BUILT_IN_FOLDER if name in built_in_names() else user_folder()
    return _read(name, folder / f"{name}{SUFFIX}")


def save_profile(profile: Profile) -> Path:
    """Write one of the user's own profiles, replacing an older one; returns its path.

    Raises ProfileError, and writes nothing, for an invalid name or value.
    """
    path = _user_path(profile.name)
    check_profile(profile, f"profile '{profile.name}'")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as draft:
            draft.write_text(profile.toml(), encoding="utf-8")
    except OSError as error:
        why = f"profile '{profile.name}' cannot be written to '{path}': {error.strerror or error}"
        raise ProfileError(f"{why}; set {FOLDER_VARIABLE} to another folder") from None
    return path


def delete_profile(name: str) -> None:
    """Delete one of the user's own profiles. Raises ProfileError with one sentence."""
    path = _user_path(name)
    try:
        path.unlink()
    except OSError as error:
        raise ProfileError(f"profile '{name}' cannot be deleted at '{path}': {error.strerror or error}") from None


def _user_path(name: str) -> Path:
    if name in built_in_names():
        raise ProfileError(f"'{name}' is a built-in profile, which stays as it is; give yours another name")
    if not _NAME.fullmatch(name):
        allowed = "up to 40 letters, digits, '-' and '_', a letter or digit first"
        raise ProfileError(f"'{name}' cannot be the name of a profile; use {allowed}")
    return user_folder() / f"{name}{SUFFIX}"


# ---- reading ----------------------------------------------------------------------------


def _names_in(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in folder.glob(f"*{SUFFIX}"))) if folder.is_dir() else ()


def _read(name: str, path: Path) -> Profile:
    with reading(f"profile '{path}'", ProfileError, "correct the file or delete it"):
        return _parsed(name, path)


def _parsed(name: str, path: Path) -> Profile:
    try:
        if path.exists() and not (path.is_file() and path.stat().st_size <= _LARGEST):  # reading a pipe would never end
            raise ProfileError(f"profile '{path}' is not a file of at most {_LARGEST:,} bytes; choose another")
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProfileError(f"profile '{path}' cannot be read: {error.strerror or error}; choose another") from None
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, or nested too deeply
        raise ProfileError(f"profile '{path}' is not TOML: {error}; correct the file or delete it") from None
    missing = [key for key in _KEYS if key not in table]
    if missing:
        raise ProfileError(f"profile '{path}' lacks {', '.join(missing)}; add what is missing to the file")
    unknown = [key for key in table if key not in (*_KEYS, _PRECISION)]
    if unknown:
        unknown_key = unknown[0] if len(unknown[0]) <= _SHOWN else f"{unknown[0][:_SHOWN]}..."
        raise ProfileError(
            f"profile '{path}' has the unknown key '{unknown_key}'; its keys are {', '.join((*_KEYS, _PRECISION))}"
        )
    demands = table["demands"]
    if isinstance(demands, list):
        if not all(isinstance(op, str) for op in demands):
            raise ProfileError(f"profile '{path}': demands must be a list of operators' names, such as [\"Conv\"]")
        demands = dict.fromkeys(demands, table["layout"])
    what, kernels = f"profile '{path}'", {}
    if isinstance(demands, dict):
        pairs = {op: parse_demand(op, wanted, what) for op, wanted in demands.items()}
        demands = {op: data for op, (data, _) in pairs.items()}
        kernels = {op: kernel for op, (_, kernel) in pairs.items() if kernel is not None}
    precision = table.get(_PRECISION, {})
    if not isinstance(precision, dict):
        raise ProfileError(f'{what}: [precision] is a table of operators, such as Conv = "float16"; change it')
    for op, dtype in precision.items():
        _check_one_of(what, f"the precision of {op}", dtype, PRECISIONS)
    profile = Profile(name, table["title"], table["layout"], table["weights"], demands, kernels, precision)
    check_profile(profile, what)
    return profile


def check_profile(profile: Profile, what: str) -> None:
    """Raises ProfileError for the first invalid value; the sentence begins with `what`."""
    title = profile.title
    if not isinstance(title, str) or not title.isprintable() or not 0 < len(title) <= _LONGEST_TITLE:
        raise ProfileError(f"{what} needs a title: one line of at most {_LONGEST_TITLE} characters")
    _check_one_of(what, "layout", profile.layout, LAYOUTS)
    _check_one_of(what, "weights", profile.weights, WEIGHTS)
    if not isinstance(profile.required_layouts, Mapping):
        raise ProfileError(
            f'{what}: demands must be a list of operators, or a table such as Conv = "NHWC" or Conv = ["NHWC", "HWIO"]'
        )
    for op, layout in profile.required_layouts.items():
        if op not in demandable_operators():
            near = difflib.get_close_matches(op, demandable_operators(), 1)
            advice = f"did you mean '{near[0]}'?" if near else "name operators such as Conv, Concat, workbench.BPA"
            raise ProfileError(f"{what} demands a layout of '{op}', which is not an operator with one; {advice}")
        _check_one_of(what, f"the layout of {op}", layout, LAYOUTS)
        if block_of(layout) is not None and not may_be_blocked(op):
            raise ProfileError(f"{what} demands {layout} of '{op}', which has no blocked form; demand NCHW or NHWC")
    blocked = sorted(
        {name for name in (profile.layout, *profile.required_layouts.values()) if block_of(name) is not None}
    )
    if len(blocked) > 1:
        raise ProfileError(f"{what} names {' and '.join(blocked)}; a profile has blocks of one size")


def _check_one_of(what: str, key: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ProfileError(f"{what}: {key} must be one of {', '.join(allowed)}, not '{str(value)[:_SHOWN]}'; change it")
