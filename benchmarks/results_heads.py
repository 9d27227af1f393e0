"""What stands above the tables of docs/results.md."""

HEAD = """# Results

Written by `python benchmarks/results.py`; every number here was measured by it, the bad ones too.

Under each table stands on which machine, and when. Other work on the machine moves times; compare within one table,
not between tables or machines.
Nothing here ran on a GPU: none was at hand. With `--device cuda`, `benchmarks/layouts.py`, `benchmarks/running.py`,
`benchmarks/resnet101.py`, `benchmarks/memory.py`, `benchmarks/peaks.py` and `benchmarks/lanes.py` print on one what
they print here: what a layout gains, running, ResNet-101, plans, peaks, lanes.
"""

ENGINE = """## The engine

Each command is a process of its own, started {repeat} times, from the shell's prompt to its end.
Peak memory is the largest resident set of the whole process, for models of 20 MB and more as a multiple of the file
too. Of the model is what it is over the same command's on a model of two nodes: the rest is Python, numpy, onnx and,
where ONNX Runtime folds something (what NumPy would round otherwise), ONNX Runtime. Beside the models of 20 MB and more
stands what the onnx package alone takes to load, check, infer shapes and save.

"""

VERIFIED = """## What it costs to be sure

CPU seconds of `optimize --preset simplify`, all processes counted: not verified, the end compared with ONNX Runtime on
the original file (the default), every step compared; and of one run of the model in ONNX Runtime, opening it counted
in (`benchmarks/verified.py`), once each. The bound is 1.5 times the first, and three runs.

"""

SOUND = """## All but one rewrite

A model of 3,610 nodes on which one rewrite of `simplify` is wrong: 8-bit weights, ONNX Runtime's own operators, and the
Sin of millions of radians in the end. It is made by `benchmarks/sound.py` after an audio model of 3,614 nodes that is
not here. Unverified, verified (not equal, so that nothing is written), and with that one rewrite found and left out.

"""

CERTIFICATES = """## Evidence to take away

`optimize --no-verify` without and with `--certificate`, and `check` of what it wrote (`benchmarks/certificates.py`): a
process each, by turns, the median of three for the first five models, once for the others. "peak" is the memory of
`check`. "bound" says whether the checker proves it of the output, or of "its network", the problem in the certificate,
which it does not build again, or it is the word of a solver or a search, which ran for at most 10 s; a pass that
minimizes nothing has none.

"""

SIMPLIFY = """## Simplifying, beside other tools

The preset `simplify` in its default mode `ieee`, onnxsim, onnxslim, onnxscript and ONNX Runtime's basic level, by
turns; `benchmarks/simplify.py`, whose head says what each column is, installs them in an environment of their own.
Bold is the fewest nodes, and an error above 1e-6. A tool that fails or takes over 300 s has a peak all the same: of
what it took until then.

"""

GROWING = """
BERTs of more nodes as TorchScript exports them, with symbolic batch and sequence, three times each. (Of 20,000 nodes
onnxscript did not end in 300 s; `benchmarks/simplify.py --scale 10000 20000`.)

"""

GROWTH_OF_ENGINE = """## How the engine's time grows

CPU seconds of `optimize --preset simplify --no-verify`, a process each, its start counted in
(`benchmarks/growth.py`), and of `report` with the same. "Growth" is how many times the CPU seconds grew over how many
times the nodes did: 1 is linear, and below 1 it is what the start of the process takes.

"""

SECOND_RUNS = """## What a second run finds

`optimize` on a file, and again on what it wrote (`benchmarks/second_runs.py`): the nodes of the graph before and after,
the rewrites of both runs, and whether the second writes the same bytes. basic_pitch_nmp's one rewrite shares a constant
that loading at a newer opset made anew. Where the bytes differ without a rewrite, types that the file declares of
values in between do: a symbol that such a value had from the first file's inputs is left open the second time.

"""

OPENS = """## Memory over many opens

One session of the app opens four small samples by turns (`benchmarks/opens.py`): the largest resident memory of the
process within each part of 400 opens. Before sessions shared nothing that keeps models, it went from 254 MB to 666.

"""

WAITING = """## Beside another process

Sixty runs of a narrow ResNet-50 by torch, alone and beside one process that spins on a core, by how the threads of
libgomp wait for work (`benchmarks/waiting.py`). With libgomp's own 300,000 looks a thread keeps the core that the
thread it waits for needs, and one run in ten takes a second. 10,000 looks cost nothing alone, and are what the worker
sets where the user sets nothing; fewer, or a passive wait, are faster beside another process and three to four times
slower alone. Medians beside another process vary by a factor of ten between runs of this table, so none is a ratio.

"""

WRITTEN = """## What is written, beside the original

ONNX Runtime with all its optimizations on one thread, on the original file and on what `simplify` makes of it, by turns
in one process (`benchmarks/written.py`), 60 runs of each: medians, and ours over the original with the interval of
95 %. "slower" is said where the whole interval is over 1.01. Samples that make one rule visible take microseconds.

"""

REVISIONS = """## What declared rules cost

The tree before rules were written as equations and as graphs ({before}) and this one simplify each model by turns
(`benchmarks/revisions.py`, whose head says what each column is).

"""

LARGE = """## A model of 3 GB

12 products of 8,192 times 8,192, their weights beside the model; `python benchmarks/simplify.py --large`.

"""

ROUNDING = """## How many digits float32 holds

Where simplifying moves a result by more than 1e-6 of it, the original is itself further than that from the same network
computed in float64, and the simplified one about as far or nearer; `benchmarks/rounding.py`, whose head says how it is
measured. Of the generated BERTs, bert_5000 is the only one that is moved so far.

"""

STRATEGIES = """## Transposes that each layout strategy leaves

Transposes of activations at run time, in brackets the elements that they move; the default preset, weights not counted.
A strategy can leave more than it found: only `optimal`, `optimal-any-order` and `blocked` weigh everything together.
`measured` goes by times taken on this machine, so its row is another elsewhere.

"""

SATURATION = """## Equality saturation

Operators in regions of algebra before and after `saturate_algebra`, on each model as it is and behind `simplify` in the
same mode; for how many regions it is proved that no expression is smaller under the rules; seconds of the pass
(`benchmarks/saturation.py`, egglog 13.2.0). Behind `simplify` there is next to nothing left (of the real models, one
operator in BERT, in mode `fast`): what it adds is the proof of that. The seconds are of a machine with other work; each
region that is not like one before takes half a second, most of which is the start of egglog's process.

"""
FUSION = """## Memory traffic of groups

Bytes that operators read and write in one run: each alone, in the groups of `fuse_groups`, and at the proven minimum of
`fuse_minimum` under the same rules, under wider ones, and if several results may leave a group, with seconds of finding
groups and proof (`benchmarks/fusion.py`). Where a bound is named, the minimum is not proved within 60 s. It is a count,
not a time: no kernel is fused yet.

"""

MINIMUM = """## The proven minimum

`layout_optimal` on networks with random weights, batch norms folded: as they are (plain), with NHWC values and each
layout-sensitive operator between two transposes (nhwc), with every 1x1 convolution of stride 1 as a MatMul on NHWC
values (mixed). Every row is certified: the transposes that stay move as many bytes as the maximum flow says they must.
The last column was measured elsewhere, with a smaller operator table.

"""

GROWTH = """
How the time grows: residual blocks, two of three with a MatMul on NHWC values between transposes, profile `cpu`.
"""

LAYOUTS = """## What a layout gains on this machine, ResNet-50, batch {batch}

The graph of the onnx package's `light_resnet50` with random weights; all variants of a table ran by turns,
`ratio` is the median of the time against "as loaded" (under 1 is faster) with its 95 % interval.

"""


RUNNING = """## Running ResNet-50, backends and precisions

The onnx package's `light_resnet50` with random weights, all variants of a table by turns (`benchmarks/running.py`).
`ratio` is to the first row; "first run" holds compiling; peak memory is what our executor counts of values and weights,
for compiled runs and ONNX Runtime the growth of the process. The sum of operators is of runs that time each one.
**CUDA graphs, CUDA's allocator and every GPU figure are missing**: `python benchmarks/running.py --device cuda` makes
them, `python -m workbench matrix --plan oneflow --device cuda` OneFlow's table.

"""

OVERHEAD = """## Our executor beside torch itself

Small modules of random weights, on which what is around the operators counts most (`benchmarks/overhead.py`): exported
by TorchScript, opened, and run by our executor without any pass, by turns with the module itself, all threads, float32.
The aim is 1.03. BERT and the blocks take less than their modules, whose own Python counts too. The linear layers take
more for their GELU, of which torch makes NaN and infinity of numbers as large as 3.4e38; ours compares with 10 first.

"""

EXTENDED = """## Written for ONNX Runtime, beside its own extended level

Nodes of the file, of what ONNX Runtime's extended level makes of it, and of what `--preset simplify --export-for
onnxruntime` writes; and milliseconds of one run on its CPU provider by turns, batch 1, all threads: the original file
at the extended level, ours with all of ONNX Runtime's optimizations off ("none") and at the extended level
(`benchmarks/extended.py`, whose head says how). The error is the largest of our file over the original, both
unoptimized. The BERTs are small and have random weights; bert_12l_raw is a real one.

"""

BACKENDS = """## Torch's backends beside ONNX Runtime

One row a model, all its columns by turns, a process for each backend (`benchmarks/backends.py`), float32, batch 1, all
threads: medians of the model as loaded by torch and by ONNX Runtime with all its optimizations, and of what `simplify`
makes of it by torch-compile, by `fused` and ("of ours") by ONNX Runtime. "best of torch" is the fastest of the three
over ONNX Runtime on the model as loaded, "ours" ONNX Runtime's time on our file over its time on the original, with the
interval of 95 %. "groups" says by what `fused` runs them.

What is lost: convolutions take nearly all of ResNet-50's and ddddocr_det_yolox's time, and the fastest library here for
each of them is a little behind ONNX Runtime's own. SqueezeNet is 31 calls from Python, 0.14 ms each. The UNet's heads
are 4 and 8 values wide, and torch's attention runs them in vectors of 16: 32 attentions take 689 of 771 ms, where all
products and softmaxes of ONNX Runtime take 458; padded to 16, the largest takes 0.77 of its time, which is not done,
since heads in use are wider.

The machine has slow phases, which "by turns" shares out, but not evenly among processes: two hours before, and before
our executor ran generated Python, ShuffleNet was at 1.14, DenseNet at 1.02, ppocrv4_rec at 0.85, SqueezeNet at 0.99,
inception_v2 at 1.17, BERT at 1.12 and 1.04, the others within 0.1 of these. Tables of this kind from before 2026-11-26
were to torch's disadvantage: a run could begin while a thread of the run before still spun, and lost 4 ms then, a tick
of the system's clock (PP-OCR's classifier stood at 1.27, ShuffleNet at 1.41).

"""

BESIDE = """## ONNX Runtime alone, and by turns with torch

Each round measures a model by ONNX Runtime alone, and then by turns with torch, each backend in a process of its own
(`benchmarks/beside.py`). The ratio is by turns to alone, over rounds; where its interval holds 1, a backend is as quick
beside another one as it is alone.

"""

VIEW = """## The graph view

In Debian's Chromium with software rendering, 1366 x 768, driven by `benchmarks/view.py`, whose head says how each
figure is measured. "Asked" is what was set as a goal before it was built. "First picture" holds everything from the
navigation on, so loading the file too (1.5 s of 10,000 nodes); below it stands the same for a model that was loaded
before. One graph fills one pane; histories have two. A step inside a closed group opens it: boxes move and the scene is
sent anew, which is what the UNet shows in "boxes that moved" and in "unchanged rerun".

"""

RESNET_101 = """## ResNet-101 by every strategy

OneFlow's table (V100, mixed precision, its automatic NHWC): batch 16, 14 s against 13 s; 32, 24 against 22; 64, 44
against 38. **It has not been run here, for want of a GPU**: `python benchmarks/resnet101.py --device cuda` makes it,
NCHW against each strategy by turns, batch 16, 32 and 64, mixed precision. Below, the same command on this machine's
CPU, float32, batch 1, random weights.

"""

MEMORY = """## Memory plans, and their runs

`python benchmarks/memory.py`: models as loaded, float32, batch 1; times by turns, a process for each backend.
"unshared" is the most bytes of computed values in use at once if each has its own memory, "shared" the part of it that
remains when results overwrite operands, views share memory and operands of a Concat are computed inside it; no arena
can be smaller. "onnxsim MB" is the arena of onnxsim 0.8.1's planner for the same file; it counts the graph's inputs,
and leaves out values that it cannot size, in brackets how many. "torch" is what eager torch holds of inputs and
computed values at its peak; "in passing" is what operators allocate beside the arena in a run of it, and which.

"""

ORDERS = """
The most bytes in use at once in the order of the file, and in the order that `order_for_memory` finds within 20 s;
`python benchmarks/memory.py --orders`.

"""

INSTANCES = """
MiniMalloc's instances (capacity 1,048,576) by every planner, at most 20 s each; `python benchmarks/memory.py
--minimalloc FOLDER`.

"""

PEAKS = """## Memory at its peak while a model runs

Models simplified by `--preset simplify`, MB beside weights and inputs: planned; the arena of that plan with what
operators allocate in passing; and the most that torch's allocator holds at once when the executor runs operator by
operator, when torch.compile has compiled the run, and when it has with inductor's own planning of memory
(TORCHINDUCTOR_MEMORY_PLANNING=1). A process each, by torch's
profiler, on CUDA by its allocator (`benchmarks/peaks.py`). What oneDNN allocates for itself is not in it.

"""

LANES = """## Operators side by side

`benchmarks/lanes.py`. "bound" is the sum of the operators' times over the longest path through the graph, by the stated
model of an H100 and by times measured here: nothing on any number of lanes gains more. "waits" are events between
lanes. "of one by one" is the median side by side over the fastest one after the other, of the same operators in the
same arena, by turns: above 1 it is slower, and the backend `lanes` then runs one after the other. Memory is the plan
for one after the other, and for these lanes.

"""

REDUCING = """## The smallest model that shows a fault

`benchmarks/reducing.py`. A few nodes are put behind a random value of a real model, on which a deliberately wrong
optimizer goes wrong (`tests/faults.py`); the check runs a candidate and what that optimizer makes of it in ONNX Runtime
and compares the numbers. "nodes" are those of the model with the fault, "left" those of the smallest candidate. The
check is a function of this process; with a command its start comes on top, once for each candidate.

"""

SWEEP = """## Sweeps over many models and devices

`benchmarks/sweep.py`. First what was measured: a block of `matrix --layouts ...` on the CPU with one thread, its
passes, its reference and its runs; "look" is what the driver does with a model before anything starts, "driver" what it
does for a block (keys, sending, the rows of the answer into SQLite). The machine had other work, which lengthens all
of it. The second table is computed, not measured: a simulation of {models:,} models x {pipelines} lists of passes on
{devices} devices, by events, from these parts and the assumptions under it. "Devices busy" is the share of their time
in which they measure.

"""

RIVALS = """## Models through every optimizer

What `rivals MODEL` measures (`benchmarks/rivals.py`): every tool on the file as it is, in a process of its own, then
all results by turns in ONNX Runtime with all its optimizations, on the CPU.

"""

RIVALS_KNOWN = """
Graphs of `tests/known_wrong.py`, small ones after public reports, on which a tool of today is still wrong or fails;
each tool is a pass of a pipeline, and verification names the rewrite (`benchmarks/rivals.py --known`).

"""

TUNING = """## Tuning beside a full enumeration

`benchmarks/tune.py`: `tune` for latency, and then every distinct candidate measured for 100 turns, both from empty
caches and with their passes and verification; "share" is the time of the one over that of the other. The choices are
then compared by 200 turns: "ratio" is the time of `tune`'s over that of the best of all. The aims are 1.03 and a third.

"""

ON_GPU = """## On a GPU

`benchmarks/on_gpu.py`, one folder of `benchmarks/gpu_results` after the other, each with its date and card. Times are
the device's own, by events; "recorded" is a CUDA graph. "of plain torch" is the time of our fastest over that of the
fastest of plain torch.

"""
