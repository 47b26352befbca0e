#!/usr/bin/env python3
"""The same as generate_bench.cpp with transformers' GPT2LMHeadModel and its cache."""
import argparse
import json
import sys
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

NEW_TOKENS = 32


def peak_rss_bytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=int, default=16, help="tokens of the prompt")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config()).eval()
    if options.bf16:
        model = model.to(torch.bfloat16)
    prompt = torch.tensor([[i * 7919 % 50257 for i in range(options.model)]])

    @torch.inference_mode()
    def run():
        begin = time.perf_counter()
        step = model(prompt, use_cache=True, logits_to_keep=1)
        token = step.logits[:, -1].argmax(-1, keepdim=True)
        first = time.perf_counter() - begin
        for _ in range(NEW_TOKENS - 1):
            step = model(token, past_key_values=step.past_key_values, use_cache=True)
            token = step.logits[:, -1].argmax(-1, keepdim=True)
        rest = (time.perf_counter() - begin - first) / (NEW_TOKENS - 1)
        print(json.dumps({"seconds_per_step": rest, "tokens_per_second": 1 / rest, "prompt_seconds": first,
                          "peak_rss_bytes": peak_rss_bytes()}), flush=True)

    for _ in sys.stdin:
        run()


if __name__ == "__main__":
    main()
