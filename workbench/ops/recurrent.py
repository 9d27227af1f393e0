"""LSTM, GRU and RNN: torch's own kernels for the usual forms, a loop over time for the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench.ops.contract import Call, Figure, operator
from workbench.ops.dtypes import CannotRun
from workbench.ops.fusion_kinds import OPAQUE
from workbench.ops.lazy import F, torch
from workbench.ops.permutation.kinds import BARRIER

Cell = Callable[..., Any]  # (input of one time, states) -> the next states, the output first


def _recurrent_flops(gates: int) -> Figure:
    """The products of all gates with input and state, and about ten operations per state element."""

    def flops(node, inputs, outputs):
        x, weight = (None if t is None else t.static_shape for t in inputs[:2])
        if x is None or weight is None:
            return None
        hidden = node.attr("hidden_size") or weight[1] // gates
        steps = x[0] * x[1] * weight[0]
        return steps * (2 * gates * hidden * (x[2] + hidden) + 10 * hidden)

    return flops


def _activation(name: str, alpha: float | None, beta: float | None) -> Callable[[torch.Tensor], torch.Tensor]:
    def given(value: float | None, default: float) -> float:
        return default if value is None else value

    table: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "relu": torch.relu,
        "affine": lambda x: given(alpha, 1.0) * x + given(beta, 0.0),
        "leakyrelu": lambda x: F.leaky_relu(x, given(alpha, 0.01)),
        "thresholdedrelu": lambda x: torch.where(x > given(alpha, 1.0), x, torch.zeros_like(x)),
        "scaledtanh": lambda x: given(alpha, 1.0) * torch.tanh(given(beta, 1.0) * x),
        "hardsigmoid": lambda x: torch.clamp(given(alpha, 0.2) * x + given(beta, 0.5), 0, 1),
        "elu": lambda x: F.elu(x, given(alpha, 1.0)),
        "softsign": F.softsign,
        "softplus": F.softplus,
    }
    if name.lower() not in table:
        raise CannotRun(f"there is no recurrent activation '{name}'")
    return table[name.lower()]


def _activations(call: Call, defaults: Sequence[str], directions: int) -> list[list[Callable]]:
    """The activation functions of each direction; alphas and betas are given in order to those that have one."""
    names = call.attr("activations") or tuple(defaults) * directions
    alphas, betas = list(call.attr("activation_alpha") or ()), list(call.attr("activation_beta") or ())
    takes_alpha = {"affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu"}
    takes_beta = {"affine", "scaledtanh", "hardsigmoid"}
    functions = []
    for name in names:
        alpha = alphas.pop(0) if alphas and name.lower() in takes_alpha else None
        beta = betas.pop(0) if betas and name.lower() in takes_beta else None
        functions.append(_activation(name, alpha, beta))
    each = len(defaults)
    return [functions[d * each : (d + 1) * each] for d in range(directions)]


def _directions(call: Call) -> list[bool]:
    """For each direction, whether it is backward."""
    return {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[call.attr("direction")]


def _clipped(call: Call) -> Callable[[torch.Tensor], torch.Tensor]:
    bound = call.attr("clip")
    return (lambda x: x) if not bound else (lambda x: x.clamp(-bound, bound))


def _batch_first(call: Call) -> bool:
    return bool(call.attr("layout"))


def _plain(call: Call, lengths: torch.Tensor | None) -> bool:
    """Whether torch's kernels compute this form."""
    return not (call.attr("activations") or call.attr("clip") or lengths is not None or _directions(call) == [True])


def _gates(weight: torch.Tensor, order: Sequence[int]) -> torch.Tensor:
    """The rows of each gate in torch's order."""
    parts = weight.chunk(len(order), 0)
    return torch.cat([parts[i] for i in order], 0)


def _torch_parameters(w, r, b, order: Sequence[int]) -> list[torch.Tensor]:
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

    x is [time, batch, size], each state [directions, batch, hidden]; the result is
    [time, directions, batch, hidden] and the last states.
    """
    columns, last = [], []
    for d, backwards in enumerate(_directions(call)):
        state = tuple(s[d] for s in states)
        outputs: list[torch.Tensor] = [x] * x.shape[0]
        for t in reversed(range(x.shape[0])) if backwards else range(x.shape[0]):
            stepped = cells[d](x[t], *state)
            if lengths is None:
                state, outputs[t] = stepped, stepped[0]
                continue
            alive = (t < lengths).unsqueeze(1)
            state = tuple(torch.where(alive, new, old) for new, old in zip(stepped, state, strict=True))
            outputs[t] = torch.where(alive, state[0], torch.zeros_like(state[0]))
        columns.append(torch.stack(outputs))
        last.append(state)
    return torch.stack(columns, 1), [torch.stack(parts) for parts in zip(*last, strict=True)]


def _start(call: Call, x: torch.Tensor, state: torch.Tensor | None, directions: int, hidden: int) -> torch.Tensor:
    if state is None:
        return torch.zeros(directions, x.shape[1], hidden, dtype=x.dtype, device=x.device)
    return state.transpose(0, 1) if _batch_first(call) else state


def _finish(call: Call, y: torch.Tensor, states: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    if not _batch_first(call):
        return y, *states
    return y.permute(2, 0, 1, 3), *[s.transpose(0, 1) for s in states]


def _from_torch(y: torch.Tensor, directions: int) -> torch.Tensor:
    """[time, batch, directions * hidden] as [time, directions, batch, hidden]."""
    return y.unflatten(2, (directions, -1)).transpose(1, 2)


@operator("LSTM", category="recurrent", layout=BARRIER, fusion=OPAQUE, flops=_recurrent_flops(4))
def lstm(call, x, w, r, b=None, lengths=None, h=None, c=None, peepholes=None):
    x = x.transpose(0, 1) if _batch_first(call) else x
    directions, hidden = r.shape[0], r.shape[2]
    h, c = (_start(call, x, state, directions, hidden) for state in (h, c))
    if _plain(call, lengths) and peepholes is None and not call.attr("input_forget"):
        parameters = _torch_parameters(w, r, b, (0, 2, 3, 1))
        y, h, c = torch.lstm(x, (h, c), parameters, b is not None, 1, 0.0, False, directions == 2, False)
        return _finish(call, _from_torch(y, directions), (h, c))
    clip, functions = _clipped(call), _activations(call, ("Sigmoid", "Tanh", "Tanh"), directions)

    def cell(d: int) -> Cell:
        f, g, out = functions[d]
        bias = 0 if b is None else sum(b[d].chunk(2))
        peep_i, peep_o, peep_f = (0, 0, 0) if peepholes is None else peepholes[d].chunk(3)

        def step(x_t, h_t, c_t):
            i_t, o_t, f_t, g_t = (x_t @ w[d].t() + h_t @ r[d].t() + bias).chunk(4, -1)
            i_t = f(clip(i_t + peep_i * c_t))
            f_t = 1 - i_t if call.attr("input_forget") else f(clip(f_t + peep_f * c_t))
            c_t = f_t * c_t + i_t * g(clip(g_t))
            return f(clip(o_t + peep_o * c_t)) * out(c_t), c_t

        return step

    y, states = _run(call, x, lengths, (h, c), [cell(d) for d in range(directions)])
    return _finish(call, y, states)


@operator("GRU", category="recurrent", layout=BARRIER, fusion=OPAQUE, flops=_recurrent_flops(3))
def gru(call, x, w, r, b=None, lengths=None, h=None):
    x = x.transpose(0, 1) if _batch_first(call) else x
    directions, hidden = r.shape[0], r.shape[2]
    h = _start(call, x, h, directions, hidden)
    after = bool(call.attr("linear_before_reset"))
    if _plain(call, lengths) and after:
        parameters = _torch_parameters(w, r, b, (1, 0, 2))
        y, h = torch.gru(x, h, parameters, b is not None, 1, 0.0, False, directions == 2, False)
        return _finish(call, _from_torch(y, directions), (h,))
    clip, functions = _clipped(call), _activations(call, ("Sigmoid", "Tanh"), directions)

    def cell(d: int) -> Cell:
        f, g = functions[d]
        zero = torch.zeros(6 * hidden, dtype=x.dtype, device=x.device)
        w_bias, r_bias = (zero if b is None else b[d]).chunk(2)
        r_zr, r_h = r[d][: 2 * hidden], r[d][2 * hidden :]
        rb_zr, rb_h = r_bias[: 2 * hidden], r_bias[2 * hidden :]

        def step(x_t, h_t):
            from_x = x_t @ w[d].t() + w_bias
            gates = from_x[:, : 2 * hidden] + h_t @ r_zr.t() + rb_zr
            z, reset = f(clip(gates)).chunk(2, -1)
            new = reset * (h_t @ r_h.t() + rb_h) if after else (reset * h_t) @ r_h.t() + rb_h
            candidate = g(clip(from_x[:, 2 * hidden :] + new))
            return ((1 - z) * candidate + z * h_t,)

        return step

    y, states = _run(call, x, lengths, (h,), [cell(d) for d in range(directions)])
    return _finish(call, y, states)


@operator("RNN", category="recurrent", layout=BARRIER, fusion=OPAQUE, flops=_recurrent_flops(1))
def rnn(call, x, w, r, b=None, lengths=None, h=None):
    x = x.transpose(0, 1) if _batch_first(call) else x
    directions, hidden = r.shape[0], r.shape[2]
    h = _start(call, x, h, directions, hidden)
    clip, functions = _clipped(call), _activations(call, ("Tanh",), directions)

    def cell(d: int) -> Cell:
        bias = 0 if b is None else sum(b[d].chunk(2))
        return lambda x_t, h_t: (functions[d][0](clip(x_t @ w[d].t() + h_t @ r[d].t() + bias)),)

    y, states = _run(call, x, lengths, (h,), [cell(d) for d in range(directions)])
    return _finish(call, y, states)
