"""The operator contracts: a file a family, one record an operator.

Families are the files that enter operators with `@operator`; `layouts.py` and
`channels_last.py` hold what their layout parts share.
"""

from workbench.ops.contract import Call, Contract, contract_of, contracts, layout_of, operator
from workbench.ops.permutation.kinds import Layout, NotPermutable, PermutedCall

__all__ = [
    "Call",
    "Contract",
    "Layout",
    "NotPermutable",
    "PermutedCall",
    "contract_of",
    "contracts",
    "layout_of",
    "operator",
]
