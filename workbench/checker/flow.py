"""A flow and a cut of equal value: no cut costs less (Ford and Fulkerson 1956)."""

from __future__ import annotations

from workbench.checker.outcome import DoesNotHold, Unreadable
from workbench.checker.records import Fields, as_int, as_list

_SOURCE, _SINK = 0, 1  # numbers of vertices


def checked_flow(record: Fields) -> int:
    """The value of the flow, which is that of the cut.

    Checks that 0 <= flow <= capacity on every edge, and that each vertex except source and sink has equal flow in and
    out. Checks that the cut separates source and sink, and that its edges are saturated. Raises DoesNotHold.
    """
    vertices = record.texts("vertices")
    source_side = set(record.wholes("first_side"))
    if _SOURCE not in source_side or _SINK in source_side:
        raise DoesNotHold(f"the cut of {record.where} does not separate source and sink")
    excess = [0] * len(vertices)
    value = cut = 0
    for number, edge in enumerate(record.items("edges"), 1):
        where = f"{record.where}, edge {number:,}"
        parts = as_list(edge, where)
        if len(parts) != 4:
            raise Unreadable(f"the certificate's {where} must be tail, head, capacity and flow")
        tail, head, flow = (as_int(parts[i], where) for i in (0, 1, 3))
        capacity = None if parts[2] is None else as_int(parts[2], where)
        if not (0 <= tail < len(vertices) and 0 <= head < len(vertices)):
            raise Unreadable(f"the certificate's {where} is between vertices that are not listed")
        name = f"the edge from '{vertices[tail]}' to '{vertices[head]}' of {record.where}"
        if flow < 0 or (capacity is not None and flow > capacity):
            limit = "" if capacity is None else f"; it may carry 0 to {capacity:,}"
            raise DoesNotHold(f"{name} carries {flow:,}{limit}")
        excess[tail] -= flow
        excess[head] += flow
        value += flow * ((tail == _SOURCE) - (head == _SOURCE))
        if tail in source_side and head not in source_side:
            if capacity is None:
                raise DoesNotHold(f"the cut goes through {name}, whose capacity is infinite")
            cut += capacity
    for number, difference in enumerate(excess):
        if difference and number not in (_SOURCE, _SINK):
            raise DoesNotHold(f"in {record.where}, what flows into '{vertices[number]}' and out of it differs")
    if value != cut:
        raise DoesNotHold(f"the flow of {record.where} is {value:,}, and its cut {cut:,}: they must be equal")
    return value
