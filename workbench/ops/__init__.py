"""The operator contracts: a record for each operator, a file for each family; channels-last and blocked forms; the
NPU's operators.

Families are the files that register operators with `@operator`. `permutation/` and `channels_last.py` hold what the
layout parts of their contracts share.
"""

from workbench.ops.contract import (
    Call,
    Contract,
    contract_by_name,
    contract_of,
    contracts,
    fusion_kind_of,
    is_pure,
    layout_of,
    operator,
)
from workbench.ops.permutation.kinds import Layout, NotPermutable, PermutedCall

__all__ = [
    "Call",
    "Contract",
    "Layout",
    "NotPermutable",
    "PermutedCall",
    "contract_by_name",
    "contract_of",
    "contracts",
    "fusion_kind_of",
    "is_pure",
    "layout_of",
    "operator",
]
