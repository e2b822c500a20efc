"""Times a model of the arena as a good PyTorch user would write it: the peers of `lra bench`.

    x      = dropout(concat(cls, Emb[tokens]) + PE)          no cls with --pool mean
    x      = x + dropout(mixer(LN(x)))                       N pre-norm blocks; the mixer is the model's own file
    x      = x + dropout(W_2 dropout(gelu(W_1 LN(x))))
    logits = W_b relu(W_a pool(LN(x)))

One repeat is one full step: zero_grad, forward, cross entropy, backward, AdamW (`--phase train`), or the logits
alone in evaluation mode (`--phase forward`). Tokens and labels are random and rows are full, so no mixer takes a
mask of padding. Steps run back to back, as in training. Float32 products stay float32 unless TF32 is asked for.

    python transformer.py --layers 4 --width 256 --heads 4 --ff 1024 --length 1024 --batch 32 --device cuda --dtype bf16

One JSON object goes to stdout, everything else to stderr.

A peer is a file with a Mixer and the line `main("name", MyMixer)`.
"""

import argparse
import json
import math
import os
import resource
import sys
import time

TORCH_VERSION = "2.11.0"  # the release that lra itself links
LEARNING_RATE = 1e-4
MIN_REPEATS = 3
WARM_AGAIN = 3  # steps after waiting: the caches are cold again, the clocks low


def fail(message):
    sys.exit(f"{os.path.basename(sys.argv[0])}: {message}")


try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError as error:
    fail(f"torch cannot be imported ({error}), expected torch {TORCH_VERSION}.")

if torch.__version__.split("+")[0] != TORCH_VERSION:
    fail(f"found torch {torch.__version__}, expected {TORCH_VERSION}, the release lra links.")


def sinusoid(positions, width):
    """PE[t,2i] = sin(t 10000^(-2i/D)), PE[t,2i+1] = cos(same)."""
    rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    angles = torch.arange(positions)[:, None] * rates
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)  # [positions, width]


class Mixer(nn.Module):
    """Queries, keys and values, whatever happens between them (`mix`), and the projection of the output."""

    def __init__(self, o):
        super().__init__()
        self.heads = o.heads
        self.head_width = o.width // o.heads
        self.positions = o.length + (o.pool == "cls")
        self.cls = o.pool == "cls"
        self.dropout_rate = o.attention_dropout
        self.qkv = nn.Linear(o.width, 3 * o.width, bias=False)
        self.out = nn.Linear(o.width, o.width, bias=False)
        xavier = math.sqrt(3 / o.width)  # of each [width, width] third, not of the fused matrix
        nn.init.uniform_(self.qkv.weight, -xavier, xavier)
        nn.init.xavier_uniform_(self.out.weight)

    def dropout_p(self):
        return self.dropout_rate if self.training else 0.0

    def before_step(self):
        """Called before each training step, outside of what is compiled."""

    def mix(self, q, k, v):  # each [B, H, n, P] -> [B, H, n, P]
        raise NotImplementedError

    def forward(self, x):  # [B, n, D]
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.out(self.mix(q, k, v).transpose(1, 2).flatten(2))


def blocks_of(x, size):
    """[B, H, n, P] -> [B, H, ceil(n / size), size, P], zeros at the end."""
    return F.pad(x, (0, 0, 0, -x.size(2) % size)).unflatten(2, (-1, size))


class Block(nn.Module):
    def __init__(self, o, mixer):
        super().__init__()
        self.norm1 = nn.LayerNorm(o.width, eps=1e-6)
        self.mixer = mixer(o)
        self.norm2 = nn.LayerNorm(o.width, eps=1e-6)
        self.ff1 = nn.Linear(o.width, o.ff)
        self.ff2 = nn.Linear(o.ff, o.width)
        self.dropout = nn.Dropout(o.dropout)
        for linear in (self.ff1, self.ff2):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.normal_(linear.bias, std=1e-6)

    def feed_forward(self, x):
        return self.ff2(self.dropout(F.gelu(self.ff1(x), approximate="tanh")))

    def forward(self, x):
        x = x + self.dropout(self.mixer(self.norm1(x)))
        return x + self.dropout(self.feed_forward(self.norm2(x)))


class Encoder(nn.Module):
    def __init__(self, o, mixer):
        super().__init__()
        self.embedding = nn.Embedding(o.vocab, o.width)  # N(0, 1)
        self.cls = nn.Parameter(torch.zeros(o.width)) if o.pool == "cls" else None
        self.register_buffer("positions", sinusoid(o.length + (o.pool == "cls"), o.width))
        self.dropout = nn.Dropout(o.dropout)
        self.blocks = nn.Sequential(*(Block(o, mixer) for _ in range(o.layers)))
        self.norm = nn.LayerNorm(o.width, eps=1e-6)
        self.head = nn.Sequential(nn.Linear(o.width, o.ff), nn.ReLU(), nn.Linear(o.ff, o.classes))
        for linear in (self.head[0], self.head[2]):
            nn.init.trunc_normal_(linear.weight, std=linear.in_features**-0.5)
            nn.init.zeros_(linear.bias)

    def forward(self, tokens):  # [B, L]
        x = self.embedding(tokens)
        if self.cls is not None:
            x = torch.cat((self.cls.expand(len(x), 1, -1), x), dim=1)
        x = self.norm(self.blocks(self.dropout(x + self.positions)))
        return self.head(x[:, 0] if self.cls is not None else self.masked_mean(x, tokens))  # [B, C]

    @staticmethod
    def masked_mean(x, tokens):
        mask = (tokens > 0).unsqueeze(-1).to(x.dtype)
        return (x * mask).sum(1) / mask.sum(1)


def make_step(model, o):
    """A function without arguments that does one unit of the work to be timed."""
    tokens = torch.randint(1, o.vocab, (o.batch, o.length), device=o.device)  # 0 is padding
    labels = torch.randint(o.classes, (o.batch,), device=o.device)

    def logits():
        with torch.autocast(o.device, torch.bfloat16, enabled=o.dtype == "bf16"):
            return model(tokens)

    def loss():
        return F.cross_entropy(logits().float(), labels)

    work = logits if o.phase == "forward" else loss
    if o.mode != "eager":  # the optimizer stays outside: fused AdamW is one kernel already
        mode = "reduce-overhead" if o.mode == "compile-graphs" else "default"
        work = torch.compile(work, mode=mode, fullgraph=True)

    if o.phase == "forward":
        model.eval()
        return torch.no_grad()(work)

    optimizer = torch.optim.AdamW(
        model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.1, fused=True
    )

    mixers = [module for module in model.modules() if isinstance(module, Mixer)]

    def train():
        for mixer in mixers:
            mixer.before_step()
        optimizer.zero_grad(set_to_none=True)
        work().backward()
        optimizer.step()

    return train


def measure(step, o):
    """Milliseconds of each repeat, from a chain of marks with one step between neighbours."""
    cuda = o.device == "cuda"

    def mark():
        if not cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def step_and_mark():
        if o.mode == "compile-graphs":
            torch.compiler.cudagraph_mark_step_begin()
        step()
        return mark()

    for _ in range(o.warmup):
        step_and_mark()
    if cuda:
        torch.cuda.synchronize()
    if o.wait:
        wait_for_turn(cuda)
        for _ in range(WARM_AGAIN):
            step_and_mark()
        if cuda:
            torch.cuda.synchronize()

    began = time.perf_counter()
    marks = [mark()]
    while len(marks) <= MIN_REPEATS or (len(marks) <= o.repeats and time.perf_counter() - began < o.seconds):
        marks.append(step_and_mark())
    if cuda:
        torch.cuda.synchronize()
        return [a.elapsed_time(b) for a, b in zip(marks, marks[1:])]
    return [1e3 * (b - a) for a, b in zip(marks, marks[1:])]


def wait_for_turn(cuda):
    """`lra bench` lets peers get ready side by side and has them measured one at a time."""
    if cuda:
        torch.cuda.empty_cache()
    print("ready", flush=True)
    if not sys.stdin.readline():
        fail("whoever was to say when it is this one's turn has gone")


def peak_bytes(device):
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # Linux counts KiB


def options():
    class Parser(argparse.ArgumentParser):
        def error(self, message):
            fail(message)

    def positive(text):
        if (value := int(text)) < 1:
            raise ValueError
        return value

    def probability(text):
        if not 0 <= (value := float(text)) < 1:
            raise ValueError
        return value

    p = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    p.add_argument("--mode", choices=("eager", "compile", "compile-graphs"), default="eager")
    p.add_argument("--phase", choices=("train", "forward"), default="train")
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    p.add_argument("--dtype", choices=("fp32", "tf32", "bf16"), default="fp32", help="bf16 is torch.autocast, tf32 is fp32 with TF32 products")
    p.add_argument("--pool", choices=("cls", "mean"), default="cls")
    p.add_argument("--layers", type=positive, default=4)
    p.add_argument("--width", type=positive, default=256)
    p.add_argument("--heads", type=positive, default=4)
    p.add_argument("--ff", type=positive, default=1024)
    p.add_argument("--length", type=positive, default=1024)
    p.add_argument("--batch", type=positive, default=32)
    p.add_argument("--vocab", type=positive, default=257)
    p.add_argument("--classes", type=positive, default=2)
    p.add_argument("--dropout", type=probability, default=0.1)
    p.add_argument("--attention-dropout", type=probability, default=0.1)
    p.add_argument("--threads", type=positive, help="CPU threads (default: what torch chooses)")
    p.add_argument("--warmup", type=positive, default=5, help="untimed steps first; compilation happens there")
    p.add_argument("--wait", action="store_true", help="say 'ready' after warming up, measure once a line comes in")
    p.add_argument("--repeats", type=positive, default=50)
    p.add_argument("--seconds", type=float, default=30.0, help=f"stop after about this long and {MIN_REPEATS} repeats")
    o = p.parse_args()

    if o.width % 2 or o.width % o.heads:
        fail(f"--width {o.width} must be even and a multiple of --heads {o.heads}.")
    if o.vocab < 2:
        fail("--vocab 1 leaves only padding; it must be at least 2.")
    if o.mode == "compile-graphs" and o.device == "cpu":
        fail("--mode compile-graphs needs --device cuda: the graphs are CUDA graphs. Use --mode compile on a CPU.")
    if o.device == "cuda" and not torch.cuda.is_available():
        fail("--device cuda: torch finds no CUDA device here.")
    return o


def main(name, mixer):
    o = options()
    if o.threads:
        torch.set_num_threads(o.threads)
    torch.set_float32_matmul_precision("high" if o.dtype == "tf32" else "highest")
    torch.manual_seed(0)
    model = Encoder(o, mixer).to(o.device)
    try:
        ms = measure(make_step(model, o), o)
    except RuntimeError as error:  # out of memory, no C++ compiler for torch.compile
        fail(str(error).strip().partition("\n")[0])

    p10, median, p90 = torch.tensor(ms, dtype=torch.float64).quantile(torch.tensor([0.1, 0.5, 0.9]).double()).tolist()
    print(json.dumps({
        "model": name,
        "length": o.length,
        "batch": o.batch,
        "dtype": o.dtype,
        "device": o.device,
        "phase": o.phase,
        "ms_median": median,
        "ms_p10": p10,
        "ms_p90": p90,
        "tokens_per_s": o.batch * o.length / (median / 1e3),
        "peak_bytes": peak_bytes(o.device),
        "implementation": f"torch-{o.mode}",
        "parameters": sum(p.numel() for p in model.parameters()),
        "repeats": len(ms),
    }))

