"""What torch takes for the work of timing.rs, in microseconds, as JSON, with notes on what it could not do.

Ends with 3 where there is no torch or no GPU, and with 1 where torch could do nothing.
"""

import json
import sys

try:
    import torch
    import torch.nn.functional as F
except ImportError as error:
    print(error)
    sys.exit(3)

if not torch.cuda.is_available():
    print("torch sees no GPU")
    sys.exit(3)


def took(work):
    for _ in range(5):
        work()
    best = float("inf")
    for _ in range(5):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(20):
            work()
        end.record()
        torch.cuda.synchronize()
        best = min(best, start.elapsed_time(end) * 1000 / 20)
    return best


def random(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


x, weight = random(8192, 4096), random(4096)
query, keys, values = random(32, 32, 1, 128), random(32, 8, 4096, 128), random(32, 8, 4096, 128)
long_query, long_keys, long_values = random(1, 32, 8192, 128), random(1, 8, 8192, 128), random(1, 8, 8192, 128)
one_query, one_keys, one_values = random(1, 32, 1, 128), random(1, 4, 1024, 128), random(1, 4, 1024, 128)
rows, matrix = random(16, 8192), random(28672, 8192)
attend = F.scaled_dot_product_attention
works = {
    "rms_norm 8192x4096": lambda: F.rms_norm(x, (4096,), weight),
    "decode B32 4k 32/8/128": lambda: attend(query, keys, values, enable_gqa=True),
    "decode B1 1k 32/4/128": lambda: attend(one_query, one_keys, one_values, enable_gqa=True),
    "prefill 1x8192 32/8/128": lambda: attend(long_query, long_keys, long_values, is_causal=True, enable_gqa=True),
    "linear 16x8192x28672": lambda: F.linear(rows, matrix),
}
microseconds, notes = {}, []
for name, work in works.items():
    # What this torch lacks costs its own line alone.
    try:
        microseconds[name] = took(work)
    except Exception as error:
        notes.append(f"skipped: {name} ({error})")
if not microseconds:
    print("\n".join(notes))
    sys.exit(1)
print(json.dumps({
    "device": torch.cuda.get_device_name(),
    "torch": torch.__version__,
    "microseconds": microseconds,
    "notes": notes,
}))
