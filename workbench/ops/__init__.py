"""The operator contracts: a file a family, one record an operator.

Families are the files that enter operators with `@operator`; `layouts.py` and
`channels_last.py` hold what their layout parts share.
"""

from workbench.ops.contract import Call, Contract, contract_of, contracts, layout_of, operator
from workbench.ops.layouts import CannotCarry, Carried, Layout

__all__ = [
    "Call",
    "CannotCarry",
    "Carried",
    "Contract",
    "Layout",
    "contract_of",
    "contracts",
    "layout_of",
    "operator",
]
