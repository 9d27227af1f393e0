"""The texts above the tables of docs/results.md."""

HEAD = """# Results

{summary}

Written by `python benchmarks/results.py`, which measured every number here, also the unfavourable ones. The lines above
are counted from the tables below.

The machine and the date are below each table. Other work on the machine changes times; compare within one table, not
between tables or machines. Except for the last part, nothing here ran on a GPU. On one, `benchmarks/layouts.py`,
`benchmarks/running.py`, `benchmarks/resnet101.py`, `benchmarks/memory.py`, `benchmarks/peaks.py` and
`benchmarks/lanes.py` print the same tables with `--device cuda`.
"""

ENGINE = """## The engine

Each command is a process of its own, started {repeat} times, from the shell's prompt to its end.
Peak memory is the largest resident set of the whole process, for models of 20 MB and more also as a multiple of the
file. The memory of the model is the peak minus that of the same command on a model of two nodes. The rest is Python,
numpy, onnx and, if ONNX Runtime folds something that NumPy would round differently, ONNX Runtime. Rows of "onnx alone"
are the onnx package, which loads, checks, infers shapes and saves.

"""

VERIFIED = """## The cost of verification

CPU seconds of `optimize --preset simplify`, of all processes: not verified; the result compared with ONNX Runtime on
the original file (the default); every step compared. Also of one run of the model in ONNX Runtime, including opening
it (`benchmarks/verified.py`), once each. The bound is 1.5 times the first plus three runs.

"""

SOUND = """## All but one rewrite

A model of 3,610 nodes on which one rewrite of `simplify` is wrong: 8-bit weights, ONNX Runtime's own operators, and
at the end the Sin of millions of radians. `benchmarks/sound.py` makes it after an audio model of 3,614 nodes, which
is not public. The rows: unverified; verified (not equal, so that nothing is written); with that one rewrite found and
left out.

"""

CERTIFICATES = """## Evidence to take away

`optimize --no-verify` without and with `--certificate`, and `check` of its output (`benchmarks/certificates.py`): a
process each, interleaved, the median of three for the first five models, once for the others. "peak" is the memory of
`check`. "bound" is "proven" if the checker proves it of the output, and "of its network" if only of the problem in
the certificate, which the checker does not build again. It is "claimed" if a solver or a search claims it, which ran
for at most 10 s. A pass that minimizes nothing has no bound.

"""

SIMPLIFY = """## Simplifying, beside other tools

The preset `simplify` in its default mode `ieee`, onnxsim, onnxslim, onnxscript and ONNX Runtime's basic level,
interleaved. `benchmarks/simplify.py` installs the tools in an environment; its docstring describes each column. Bold
is the fewest nodes, and an error above 1e-6. A tool that fails or takes over 300 s still has a peak: its memory until
then.

"""

GROWING = """
Larger BERTs as TorchScript exports them, with symbolic batch and sequence, three times each. (With 20,000 nodes,
onnxscript did not end in 300 s; `benchmarks/simplify.py --scale 10000 20000`.)

"""

GROWTH_OF_ENGINE = """## How the engine's time grows

CPU seconds of `optimize --preset simplify --no-verify`, and of `report` with the same options, a process each
including its start (`benchmarks/growth.py`). "Growth" is the growth of the CPU seconds over the growth of the nodes:
1 is linear, and values below 1 come from the constant time of the process's start.

"""

SECOND_RUNS = """## A second run

`optimize` on a file, and again on its output (`benchmarks/second_runs.py`): the nodes of the graph before and after,
the rewrites of both runs, and whether the second writes the same bytes. basic_pitch_nmp's one rewrite shares a
constant that loading at a newer opset created again. Where the bytes differ without a rewrite, the declared types of
intermediate values differ: a symbol that such a value had from the first file's inputs is unknown the second time.

"""

OPENS = """## Memory over many opens

One session of the app opens four small samples alternately (`benchmarks/opens.py`): the largest resident memory of the
process within each part of 400 opens. In an earlier version, in which sessions shared models, it grew from 254 MB to
666 MB.

"""

WAITING = """## Beside another process

Sixty runs of a narrow ResNet-50 by torch, alone and beside one process that spins on a core, by libgomp's setting for
waiting threads (`benchmarks/waiting.py`). With libgomp's default of 300,000 spins, a waiting thread keeps the core
that the other thread needs, and one run in ten takes a second. 10,000 spins cost nothing alone; the worker sets them
unless the user sets a value. Fewer spins, or a passive wait, are faster beside another process and three to four
times slower alone. Medians beside another process vary by a factor of ten between runs of this table, so it has no
ratios.

"""

WRITTEN = """## The simplified file beside the original

ONNX Runtime with all its optimizations on one thread, on the original file and on the result of `simplify`,
interleaved in one process (`benchmarks/written.py`), 60 runs of each: medians, and the ratio of ours to the original
with its 95 % interval. "slower" marks rows whose whole interval is above 1.01. Samples that show a single rule take
microseconds.

"""

REVISIONS = """## The cost of declared rules

The revision before rules were written as equations and as graphs ({before}) and the present one simplify each model
alternately (`benchmarks/revisions.py`, whose docstring describes each column).

"""

LARGE = """## A model of 3 GB

12 products of 8,192 times 8,192, with the weights in a separate file; `python benchmarks/simplify.py --large`.

"""

ROUNDING = """## The precision of float32

Models whose simplified result differs from the original by a relative error above 1e-6. The original itself differs by
more from the same network in float64, and the simplified network by about as much or less; the docstring of
`benchmarks/rounding.py` describes the measurement. Of the generated BERTs, only bert_5000 differs so much.

"""

STRATEGIES = """## Transposes that each layout strategy leaves

Transposes of activations at run time, and in brackets the elements that they move; the default preset, without
weights. A strategy can leave more transposes than the model had: only `optimal`, `optimal-any-order` and `blocked`
minimize over the whole graph. `measured` depends on times of this machine.

"""

SATURATION = """## Equality saturation

Operators in algebraic regions before and after `saturate_algebra`, on each model as it is and after `simplify` in the
same mode; the number of regions for which no expression is smaller under the rules, with proof; seconds of the pass
(`benchmarks/saturation.py`, egglog 13.2.0). After `simplify`, almost nothing is left: of the real models, one operator
in BERT, in mode `fast`. The pass then adds the proof of that. The machine had other work. Each distinct region takes
half a second, most of it for the start of egglog's process.

"""
FUSION = """## Memory traffic of groups

Bytes that operators read and write in one run: each operator alone, the groups of `fuse_groups`, and the minimum of
`fuse_minimum` under the same rules, under wider rules, and if several results may leave a group. The seconds are those
of the search and the proof (`benchmarks/fusion.py`). A cell with a bound was not proved within 60 s. The bytes are
counted; no kernel is fused here.

"""

MINIMUM = """## The proven minimum

`layout_optimal` on networks with random weights, batch norms folded, written in three ways. "plain" is the network as
it is. "nhwc" has NHWC values, and each layout-sensitive operator between two transposes. "mixed" has every 1x1
convolution of stride 1 as a MatMul on NHWC values. Every row is certified: the remaining transposes move as many
bytes as the maximum flow requires. The last column was measured before, with fewer operators in the table.

"""

GROWTH = """
The growth of the time: residual blocks, two of three with a MatMul on NHWC values between transposes, profile `cpu`.
"""

LAYOUTS = """## What a layout gains on this machine, ResNet-50, batch {batch}

The graph of the onnx package's `light_resnet50` with random weights; all variants of a table ran interleaved,
`ratio` is the ratio of the median time to "as loaded" (below 1 is faster), with its 95 % interval.

"""


RUNNING = """## Running ResNet-50, backends and precisions

The onnx package's `light_resnet50` with random weights, all variants of a table interleaved
(`benchmarks/running.py`). `ratio` is to the first row; "first result" includes compiling. Peak memory is our
executor's count of values and weights; for compiled runs and ONNX Runtime, it is the growth of the process. The sum
of operators is of runs that time each one. **CUDA graphs, CUDA's allocator and all GPU figures are missing**: `python
benchmarks/running.py --device cuda` measures them, and `python -m workbench matrix --plan oneflow --device cuda`
OneFlow's table.

"""

OVERHEAD = """## Our executor beside torch itself

Small modules with random weights, for which the overhead around operators is largest (`benchmarks/overhead.py`). They
are exported by TorchScript, opened, and run by our executor without any pass, interleaved with the module itself, all
threads, float32. The aim is 1.03. BERT and the blocks take less than their modules, whose Python code counts too. The
linear layers take more because of GELU: torch's returns NaN and infinity for numbers as large as 3.4e38, and ours
compares with 10 first.

"""

EXTENDED = """## Written for ONNX Runtime, beside its own extended level

Nodes of the file, of the result of ONNX Runtime's extended level, and of the file that `--preset simplify
--export-for onnxruntime` writes. Milliseconds of one run on its CPU provider, interleaved, batch 1, all threads: the
original file at the extended level, and our file with all of ONNX Runtime's optimizations off ("none") and at the
extended level (`benchmarks/extended.py`). The error is the largest of our file against the original, both
unoptimized. The BERTs are small and have random weights; bert_12l_raw is a real model.

"""

BACKENDS = """## Torch's backends beside ONNX Runtime

One row a model, all its columns interleaved, a process for each backend (`benchmarks/backends.py`), float32, batch 1,
all threads. Medians of the model as loaded by torch and by ONNX Runtime with all its optimizations, and of the result
of `simplify` by torch-compile, by `fused` and by ONNX Runtime ("ours"). "best of torch" is the ratio of the fastest
of the three torch backends to ONNX Runtime on the model as loaded. "ours" is the ratio of ONNX Runtime on our file to
ONNX Runtime on the original, with its 95 % interval. "groups" counts the groups of `fused` by what runs them.

Where torch's backends are slower: convolutions take nearly all of ResNet-50's and ddddocr_det_yolox's time, and for
each of them the fastest library here is slightly slower than ONNX Runtime's. SqueezeNet is 31 calls from Python, 0.14
ms each. The UNet's heads are 4 and 8 values wide, and torch's attention runs them in vectors of 16: 32 attentions
take 689 of 771 ms, where all products and softmaxes of ONNX Runtime take 458 ms. Padded to 16, the largest would take
0.77 of its time; this is not implemented, since heads in use are wider.

The machine has slow phases, which interleaving distributes, but not evenly among processes. Two hours earlier, before
our executor ran generated Python, ShuffleNet was at 1.14, DenseNet at 1.02, ppocrv4_rec at 0.85, SqueezeNet at 0.99,
inception_v2 at 1.17, BERT at 1.12 and 1.04, the others within 0.1 of these. Tables from before 2026-11-26 put torch
at a disadvantage: a run could begin while a thread of the previous run still spun, and then lost 4 ms, a tick of the
system's clock (PP-OCR's classifier was at 1.27, ShuffleNet at 1.41).

"""

BESIDE = """## ONNX Runtime alone, and interleaved with torch

Each round measures a model by ONNX Runtime alone, and then interleaved with torch, each backend in a process of its
own (`benchmarks/beside.py`). The ratio is of interleaved to alone, over rounds; an interval that contains 1 shows no
loss.

"""

VIEW = """## The graph view

In Debian's Chromium with software rendering, 1366 x 768, driven by `benchmarks/view.py`, whose docstring describes
each figure. "Asked" is the goal set before the view was built. "First picture" begins at the navigation, so it
includes loading the file (1.5 s of 10,000 nodes); the row below is for a model that was loaded before. A graph
without a history has one pane; histories have two. A step inside a closed group opens it: boxes move and the scene is
sent again, as the UNet shows in "boxes that moved" and in "unchanged rerun".

"""

FIRST_MINUTE = """## The first minute

From the command that starts a tool (`benchmarks/first_minute.py`), with ResNet-50, narrow (176 nodes). Each way is gone
through once, in a new process, by a script that does not wait to think. Clicks here are counted by the browser;
Netron's is on its notice about cookies. [The graph view](view.md#beside-other-tools) compares what is then seen.

"""

RESNET_101 = """## ResNet-101 by every strategy

OneFlow's table (V100, mixed precision, its automatic NHWC): batch 16, 14 s against 13 s; 32, 24 against 22; 64, 44
against 38. **It has not been measured here, without a GPU**: `python benchmarks/resnet101.py --device cuda` does so,
NCHW against each strategy interleaved, batch 16, 32 and 64, mixed precision. Below is the same command on this
machine's CPU, float32, batch 1, random weights.

"""

MEMORY = """## Memory plans, and their runs

`python benchmarks/memory.py`: models as loaded, float32, batch 1; times interleaved, a process for each backend.
"unshared" is the peak of live computed values if each has separate memory. "shared" is the part of it that remains
when results overwrite operands, views share memory and operands of a Concat are computed inside it; no arena can be
smaller. "onnxsim MB" is the arena of onnxsim 0.8.1's planner for the same file; it includes the graph's inputs, and
leaves out values of unknown size, counted in brackets. "torch MB" is eager torch's peak of inputs and computed
values. "in passing" is the memory that operators allocate beside the arena in a run, and which operators.

"""

ORDERS = """
The peak of live bytes in the order of the file, and in the order that `order_for_memory` finds within 20 s;
`python benchmarks/memory.py --orders`.

"""

INSTANCES = """
MiniMalloc's instances (capacity 1,048,576) by every planner, at most 20 s each; `python benchmarks/memory.py
--minimalloc FOLDER`.

"""

PEAKS = """## Memory at its peak while a model runs

Models simplified by `--preset simplify`, MB without weights and inputs: the plan; its arena with the temporary memory
of operators; and the peak of torch's allocator in three runs: operator by operator, compiled by torch.compile, and
compiled with inductor's memory planning (TORCHINDUCTOR_MEMORY_PLANNING=1). A process each, by torch's profiler, on
CUDA by its allocator (`benchmarks/peaks.py`). Internal allocations of oneDNN are not included.

"""

LANES = """## Operators side by side

`benchmarks/lanes.py`. "bound" is the sum of the operators' times over the longest path through the graph, by the cost
model of an H100 and by times measured here: no number of streams gains more. "waits" are events between streams. "of
one by one" is the ratio of the median on streams to the faster sequential run, of the same operators in the same
arena, interleaved. Above 1, streams are slower, and the backend `lanes` then runs sequentially. Memory is the plan
for the sequential run, and for these streams.

"""

REDUCING = """## The smallest model that shows a fault

`benchmarks/reducing.py`. A few nodes are inserted after a random value of a real model; on them, a deliberately wrong
optimizer fails (`tests/faults.py`). The check runs a candidate and the optimizer's result of it in ONNX Runtime and
compares the numbers. "nodes" are those of the model with the fault, "left" those of the smallest candidate. The check
is a function of this process; a command would add its start for each candidate.

"""

SWEEP = """## Sweeps over many models and devices

`benchmarks/sweep.py`. The first table is measured: a block of `matrix --layouts ...` on the CPU with one thread, with
its passes, its reference and its runs. "look" is the driver's inspection of a model before anything starts, "driver"
its work for a block (keys, sending, the answer's rows in SQLite). The machine had other work, which lengthens all
times. The second table is computed, not measured: a discrete-event simulation of {models:,} models x {pipelines}
lists of passes on {devices} devices, from these parts and the assumptions below it. "Devices busy" is the share of
their time in which they measure.

"""

RIVALS = """## Models through every optimizer

The measurements of `compare-tools MODEL` (`benchmarks/rivals.py`): every tool on the original file, a process each,
then all results interleaved in ONNX Runtime with all its optimizations, on the CPU.

"""

RIVALS_KNOWN = """
Small graphs of `tests/known_wrong.py`, after public reports, on which a present tool is wrong or fails. Each tool is a
pass of a pipeline, and verification names the rewrite (`benchmarks/rivals.py --known`).

"""

TUNING = """## Tuning beside a full enumeration

`benchmarks/tune.py`: `tune` for latency, and then a measurement of every distinct candidate for 100 rounds, both from
empty caches and including passes and verification. "share" is the time of `tune` over that of the full enumeration.
The two choices are then compared in 200 rounds: "ratio" is the time of `tune`'s choice over that of the best of all.
The aims are at most 1.03 for the ratio and a third for the share.

"""

ON_GPU = """## On a GPU

`benchmarks/on_gpu.py`: each section is a folder of `benchmarks/gpu_results`, with its date and card. Times are
measured by CUDA events; "recorded" is a CUDA graph. "of plain torch" is the time of our fastest over that of the
fastest of plain torch.

"""
