"""Run docs/notebook.ipynb and write its outputs: `python docs/make_notebook.py`. It needs no Jupyter."""

import ast
import contextlib
import io
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
NOTEBOOK = HERE / "notebook.ipynb"
sys.path.insert(0, str(HERE.parent))


def executed() -> dict:
    """The notebook with the outputs that its code cells have now."""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    names: dict = {}
    code = (cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    for count, cell in enumerate(code, start=1):
        cell["execution_count"], cell["outputs"] = count, _outputs("".join(cell["source"]), names, count)
    return notebook


def _outputs(source: str, names: dict, count: int) -> list[dict]:
    """What the cell prints, and what its last line is where that is an expression."""
    body = ast.parse(source).body
    last = body.pop().value if isinstance(body[-1], ast.Expr) else ast.Constant(None)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), NOTEBOOK.name, "exec"), names)
        value = eval(compile(ast.fix_missing_locations(ast.Expression(last)), NOTEBOOK.name, "eval"), names)
    outputs: list[dict] = []
    if printed.getvalue():
        outputs.append(
            {"output_type": "stream", "name": "stdout", "text": printed.getvalue().splitlines(keepends=True)}
        )
    if value is not None:
        data = {"text/plain": [repr(value)]}
        if hasattr(value, "_repr_html_"):
            data = {"text/html": [value._repr_html_()], **data}
        outputs.append({"output_type": "execute_result", "execution_count": count, "data": data, "metadata": {}})
    return outputs


if __name__ == "__main__":
    NOTEBOOK.write_text(json.dumps(executed(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
