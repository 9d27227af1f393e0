"""LSTM, GRU and RNN: torch's own kernels for the usual forms, a loop over time for the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from workbench.ir import Node
from workbench.ops.contract import Call, FlopCount, Types, known_shape, operator
from workbench.ops.dtypes import UnsupportedByTorch
from workbench.ops.fusion_kinds import OPAQUE
from workbench.ops.lazy import F, torch
from workbench.ops.permutation.kinds import LAYOUT_BARRIER

Cell: TypeAlias = Callable[..., "tuple[torch.Tensor, ...]"]  # (x[t], *states) -> the next states, the output first
Activation: TypeAlias = Callable[["torch.Tensor"], "torch.Tensor"]


def _recurrent_flops(gates: int) -> FlopCount:
    """The products of all gates with input and state, and about ten operations per state element."""

    def flops(node: Node, inputs: Types, outputs: Types) -> int | None:
        x, weight = known_shape(inputs, 0), known_shape(inputs, 1)
        if x is None or weight is None:
            return None
        hidden: int = node.attr("hidden_size") or weight[1] // gates
        steps = x[0] * x[1] * weight[0]
        return steps * (2 * gates * hidden * (x[2] + hidden) + 10 * hidden)

    return flops


def _activation(name: str, alpha: float | None, beta: float | None) -> Activation:
    def or_default(value: float | None, default: float) -> float:
        return default if value is None else value

    table: dict[str, Activation] = {
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "relu": torch.relu,
        "affine": lambda x: or_default(alpha, 1.0) * x + or_default(beta, 0.0),
        "leakyrelu": lambda x: F.leaky_relu(x, or_default(alpha, 0.01)),
        "thresholdedrelu": lambda x: torch.where(x > or_default(alpha, 1.0), x, torch.zeros_like(x)),
        "scaledtanh": lambda x: or_default(alpha, 1.0) * torch.tanh(or_default(beta, 1.0) * x),
        "hardsigmoid": lambda x: torch.clamp(or_default(alpha, 0.2) * x + or_default(beta, 0.5), 0, 1),
        "elu": lambda x: F.elu(x, or_default(alpha, 1.0)),
        "softsign": F.softsign,
        "softplus": F.softplus,
    }
    if name.lower() not in table:
        raise UnsupportedByTorch(f"there is no recurrent activation '{name}'")
    return table[name.lower()]


def _activations(call: Call, defaults: Sequence[str], directions: int) -> list[list[Activation]]:
    """The activation functions of each direction. Those that have an alpha or a beta take the next of the node's."""
    names = call.attr("activations") or tuple(defaults) * directions
    alphas, betas = list(call.attr("activation_alpha") or ()), list(call.attr("activation_beta") or ())
    takes_alpha = {"affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu"}
    takes_beta = {"affine", "scaledtanh", "hardsigmoid"}
    functions = []
    for name in names:
        alpha = alphas.pop(0) if alphas and name.lower() in takes_alpha else None
        beta = betas.pop(0) if betas and name.lower() in takes_beta else None
        functions.append(_activation(name, alpha, beta))
    count = len(defaults)
    return [functions[d * count : (d + 1) * count] for d in range(directions)]


def _directions(call: Call) -> list[bool]:
    """For each direction, whether it is backward."""
    return {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[call.attr("direction")]


def _clipping(call: Call) -> Activation:
    """The function that clips the operand of an activation, or the identity."""
    bound = call.attr("clip")
    return (lambda x: x) if not bound else (lambda x: x.clamp(-bound, bound))


def _batch_first(call: Call) -> bool:
    return bool(call.attr("layout"))


def _has_kernel(call: Call, lengths: torch.Tensor | None) -> bool:
    """Whether torch's kernels compute this form."""
    return not (call.attr("activations") or call.attr("clip") or lengths is not None or _directions(call) == [True])


def _gates(weight: torch.Tensor, order: Sequence[int]) -> torch.Tensor:
    """The rows of each gate in torch's order. order: ONNX's indices of torch's gates."""
    parts = weight.chunk(len(order), 0)
    return torch.cat([parts[i] for i in order], 0)


def _torch_parameters(
    w: torch.Tensor, r: torch.Tensor, b: torch.Tensor | None, order: Sequence[int]
) -> list[torch.Tensor]:
    """Input weights, state weights and both biases of each direction, in the form of torch's kernels."""
    parameters = []
    for d in range(w.shape[0]):
        parameters += [_gates(w[d], order), _gates(r[d], order)]
        if b is not None:
            parameters += [_gates(half, order) for half in b[d].chunk(2)]
    return parameters


def _run(
    call: Call, x: torch.Tensor, lengths: torch.Tensor | None, states: Sequence[torch.Tensor], cells: Sequence[Cell]
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Run the cell of each direction over time. After the end of a sequence the state stays and the output is 0.

    x: [T, N, I], lengths: [N], states: [D, N, H] -> y: [T, D, N, H], last states: [D, N, H]
    """
    columns, last = [], []
    for d, backwards in enumerate(_directions(call)):
        state = tuple(s[d] for s in states)
        outputs: list[torch.Tensor] = [x] * x.shape[0]
        for t in reversed(range(x.shape[0])) if backwards else range(x.shape[0]):
            next_state = cells[d](x[t], *state)
            if lengths is None:
                state, outputs[t] = next_state, next_state[0]
                continue
            runs = (t < lengths).unsqueeze(1)
            state = tuple(torch.where(runs, new, old) for new, old in zip(next_state, state, strict=True))
            outputs[t] = torch.where(runs, state[0], torch.zeros_like(state[0]))
        columns.append(torch.stack(outputs))
        last.append(state)
    return torch.stack(columns, 1), [torch.stack(parts) for parts in zip(*last, strict=True)]


def _start(call: Call, x: torch.Tensor, state: torch.Tensor | None, directions: int, hidden: int) -> torch.Tensor:
    """The initial state [D, N, H]; zeros if the operand is omitted."""
    if state is None:
        return torch.zeros(directions, x.shape[1], hidden, dtype=x.dtype, device=x.device)
    return state.transpose(0, 1) if _batch_first(call) else state


def _finish(call: Call, y: torch.Tensor, states: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """[T, D, N, H] and states [D, N, H] in the order of axes that the attribute `layout` names."""
    if not _batch_first(call):
        return y, *states
    return y.permute(2, 0, 1, 3), *[s.transpose(0, 1) for s in states]


def _from_torch(y: torch.Tensor, directions: int) -> torch.Tensor:
    """[T, N, D * H] as [T, D, N, H]."""
    return torch.unflatten(y, 2, (directions, -1)).transpose(1, 2)


@operator("LSTM", category="recurrent", layout=LAYOUT_BARRIER, fusion=OPAQUE, flops=_recurrent_flops(4))
def lstm(
    call: Call,
    x: torch.Tensor,
    w: torch.Tensor,
    r: torch.Tensor,
    b: torch.Tensor | None = None,
    lengths: torch.Tensor | None = None,
    h: torch.Tensor | None = None,
    c: torch.Tensor | None = None,
    peepholes: torch.Tensor | None = None,
) -> tuple[torch.Tensor, ...]:
    """The outputs of all times, and the last states. The second form is that of `layout = 1`.

    x: [T, N, I], w: [D, 4 * H, I], r: [D, 4 * H, H], b: [D, 8 * H], lengths: [N], h: [D, N, H], c: [D, N, H],
        peepholes: [D, 3 * H] -> y: [T, D, N, H], last_h: [D, N, H], last_c: [D, N, H]
    x: [N, T, I], h: [N, D, H], c: [N, D, H] -> y: [N, T, D, H], last_h: [N, D, H], last_c: [N, D, H]
    """
    x = x.transpose(0, 1) if _batch_first(call) else x
    directions, hidden = r.shape[0], r.shape[2]
    h, c = (_start(call, x, state, directions, hidden) for state in (h, c))
    if _has_kernel(call, lengths) and peepholes is None and not call.attr("input_forget"):
        parameters = _torch_parameters(w, r, b, (0, 2, 3, 1))
        y, h, c = torch.lstm(x, (h, c), parameters, b is not None, 1, 0.0, False, directions == 2, False)
        return _finish(call, _from_torch(y, directions), (h, c))
    clip, functions = _clipping(call), _activations(call, ("Sigmoid", "Tanh", "Tanh"), directions)

    def cell(d: int) -> Cell:
        f, g, out = functions[d]
        bias = 0 if b is None else sum(b[d].chunk(2))
        peep_i, peep_o, peep_f = (0, 0, 0) if peepholes is None else peepholes[d].chunk(3)

        def step(x_t: torch.Tensor, h_t: torch.Tensor, c_t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            i_t, o_t, f_t, g_t = (x_t @ w[d].t() + h_t @ r[d].t() + bias).chunk(4, -1)
            i_t = f(clip(i_t + peep_i * c_t))
            f_t = 1 - i_t if call.attr("input_forget") else f(clip(f_t + peep_f * c_t))
            c_t = f_t * c_t + i_t * g(clip(g_t))
            return f(clip(o_t + peep_o * c_t)) * out(c_t), c_t

        return step

    y, states = _run(call, x, lengths, (h, c), [cell(d) for d in range(directions)])
    return _finish(call, y, states)


@operator("GRU", category="recurrent", layout=LAYOUT_BARRIER, fusion=OPAQUE, flops=_recurrent_flops(3))
def gru(
    call: Call,
    x: torch.Tensor,
    w: torch.Tensor,
    r: torch.Tensor,
    b: torch.Tensor | None = None,
    lengths: torch.Tensor | None = None,
    h: torch.Tensor | None = None,
) -> tuple[torch.Tensor, ...]:
    """The outputs of all times, and the last state. The second form is that of `layout = 1`.

    x: [T, N, I], w: [D, 3 * H, I], r: [D, 3 * H, H], b: [D, 6 * H], lengths: [N], h: [D, N, H] ->
        y: [T, D, N, H], last_h: [D, N, H]
    x: [N, T, I], h: [N, D, H] -> y: [N, T, D, H], last_h: [N, D, H]
    """
    x = x.transpose(0, 1) if _batch_first(call) else x
    directions, hidden = r.shape[0], r.shape[2]
    h = _start(call, x, h, directions, hidden)
    linear_first = bool(call.attr("linear_before_reset"))
    if _has_kernel(call, lengths) and linear_first:
        parameters = _torch_parameters(w, r, b, (1, 0, 2))
        y, h = torch.gru(x, h, parameters, b is not None, 1, 0.0, False, directions == 2, False)
        return _finish(call, _from_torch(y, directions), (h,))
    clip, functions = _clipping(call), _activations(call, ("Sigmoid", "Tanh"), directions)

    def cell(d: int) -> Cell:
        f, g = functions[d]
        zero = torch.zeros(6 * hidden, dtype=x.dtype, device=x.device)
        w_bias, r_bias = (zero if b is None else b[d]).chunk(2)
        r_zr, r_h = r[d][: 2 * hidden], r[d][2 * hidden :]
        rb_zr, rb_h = r_bias[: 2 * hidden], r_bias[2 * hidden :]

        def step(x_t: torch.Tensor, h_t: torch.Tensor) -> tuple[torch.Tensor]:
            from_x = x_t @ w[d].t() + w_bias
            gates = from_x[:, : 2 * hidden] + h_t @ r_zr.t() + rb_zr
            z, reset = f(clip(gates)).chunk(2, -1)
            new = reset * (h_t @ r_h.t() + rb_h) if linear_first else (reset * h_t) @ r_h.t() + rb_h
            candidate = g(clip(from_x[:, 2 * hidden :] + new))
            return ((1 - z) * candidate + z * h_t,)

        return step

    y, states = _run(call, x, lengths, (h,), [cell(d) for d in range(directions)])
    return _finish(call, y, states)


@operator("RNN", category="recurrent", layout=LAYOUT_BARRIER, fusion=OPAQUE, flops=_recurrent_flops(1))
def rnn(
    call: Call,
    x: torch.Tensor,
    w: torch.Tensor,
    r: torch.Tensor,
    b: torch.Tensor | None = None,
    lengths: torch.Tensor | None = None,
    h: torch.Tensor | None = None,
) -> tuple[torch.Tensor, ...]:
    """The outputs of all times, and the last state. The second form is that of `layout = 1`.

    x: [T, N, I], w: [D, H, I], r: [D, H, H], b: [D, 2 * H], lengths: [N], h: [D, N, H] ->
        y: [T, D, N, H], last_h: [D, N, H]
    x: [N, T, I], h: [N, D, H] -> y: [N, T, D, H], last_h: [N, D, H]
    """
    x = x.transpose(0, 1) if _batch_first(call) else x
    directions, hidden = r.shape[0], r.shape[2]
    h = _start(call, x, h, directions, hidden)
    clip, functions = _clipping(call), _activations(call, ("Tanh",), directions)

    def cell(d: int) -> Cell:
        bias = 0 if b is None else sum(b[d].chunk(2))
        return lambda x_t, h_t: (functions[d][0](clip(x_t @ w[d].t() + h_t @ r[d].t() + bias)),)

    y, states = _run(call, x, lengths, (h,), [cell(d) for d in range(directions)])
    return _finish(call, y, states)
