"""The packages that are mutated, each with the tests that are to notice it: quick ones, which call it most directly."""

from tests.mutation.running import Subject

SUBJECTS = {
    "ir": Subject(
        ("workbench/ir/*.py",),
        ("graph", "ir", "messages", "graph_properties", "load", "networkx", "bodies"),
    ),
    "rewrite/core": Subject(
        ("workbench/rewrite/core/*.py",),
        (
            *(
                "rewrite_core",
                "amplified_rounding",
                "content",
                "dead_code",
                "bodies",
                "limits",
                "own_passes",
                "provenance",
            ),
            "kernels_of_results",
        ),
    ),
    "solvers": Subject(("workbench/planning/solvers/*.py",), ("cut", "ilp", "binary_program", "path_cover")),
    "metrics": Subject(("workbench/analysis/metrics/*.py",), ("metrics", "useless_transposes")),
    "cuts": Subject(
        (
            "workbench/planning/layout/problem/orders.py",
            "workbench/planning/layout/problem/operator_orders.py",
            "workbench/planning/layout/strategies/order_conversions.py",
            "workbench/planning/precision/problem.py",
            "workbench/planning/precision/joint/orders_and_types.py",
        ),
        (
            *("cut_problems", "layout_optimal", "layout_orders", "precision_with_layout"),
            *("minimum_of_what", "what_needs_transposes", "measured", "minimize_transposes"),
        ),
    ),
    "checker": Subject(
        ("workbench/checker/*.py",),
        (
            *("checker_memory", "checker_numbers", "checker_bounds", "checker_certificates", "checker_runs"),
            *("certificate_operators", "certificate_run", "certificate_false_bounds", "certificate_forged"),
            *("certificate_hidden", "certificate_refused", "certificate_versions", "certificate_words"),
        ),
    ),
}
