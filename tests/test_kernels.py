"""What the inspector says of the kernel of a node, from a measurement."""

from dataclasses import replace

import pytest

from tests.running import normal, outputs, typed
from workbench.interfaces.ui.state.kernels import kernel_sections
from workbench.run.measurement.measure import measure_models
from workbench.run.measurement.variants import combined


@pytest.mark.slow
def test_a_node_and_its_group_have_the_kernel_in_which_they_ran(shared_worker):
    graph = typed(
        "g (float[32,64] x) => (float[32,64] y, float[32,64] z) { a = Exp(x)  y = Neg(a)  z = LpNormalization(x) }"
    )
    inputs = {"x": normal(32, 64)}
    wanted = combined({"m": graph}, ["torch", "fused"], ["float32"])
    found = measure_models(wanted, inputs=inputs, reference=outputs(graph, inputs), repeat=2, worker=shared_worker)
    (kernel,) = (kernel for kernel in found.ran["fused"].kernels if "Exp_a" in kernel.operators)
    of_node, of_group = (kernel_sections(found, id_) for id_ in ("Neg_y", "group:group_1"))
    assert of_node == of_group
    rows = dict(of_node[0]["rows"])
    assert rows["run by"] == f"{kernel.by}, in 'fused'"
    assert rows["operators in it"] == "Exp_a, Neg_y"
    assert rows["time"] == f"{kernel.time_ms:,.3f} ms"
    assert [section["text"] for section in of_node[1:]] == ([kernel.source] if kernel.source else [])
    assert kernel_sections(found, "in:x") == kernel_sections(None, "Neg_y") == []
    alone = replace(found, variants={"torch": found.ran["torch"]})
    assert kernel_sections(alone, "Neg_y") == []
