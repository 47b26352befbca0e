"""The parts of tools/gpu_report.sh: runs each in its time box, keeps its findings, writes the report."""

import argparse
import csv
import datetime
import io
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time

SOURCE = pathlib.Path(__file__).resolve().parent.parent
OUT = SOURCE / "build" / "gpu"
PACKED = pathlib.Path(os.environ.get("REPRISE_OFFLINE", SOURCE / ".offline")) / "gpu_build.tar.xz"
SECONDS = {"configure": 30, "build": 200, "tests": 130, "recompute": 60, "kernels": 60, "train": 150, "vision": 90,
           "profile": 60, "sanitizer": 60}
SANITIZED = {"memcheck": "*", "racecheck": "LayerNorm*:Softmax*:Attention.MatchesNaive*:AttentionHalf.MatchesAtTileEdges"}
ROUNDS = 3


class Part:
    """One part's run: its log, its findings, and what is left of its time."""

    def __init__(self, name, rehearse):
        self.name, self.rehearse = name, rehearse
        self.log = (OUT / f"{name}.log").open("w")
        self.ends = time.monotonic() + SECONDS[name] * (20 if rehearse else 1)
        self.findings = {"status": "passed"}

    def run(self, command, share=1.0, input_text=None, **options):
        """(exit code, output); -1 if the time box, or the command's share of what is left of it, ended it."""
        print("$", " ".join(map(str, command)), file=self.log, flush=True)
        try:
            process = subprocess.Popen(command, text=True, errors="replace", stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=SOURCE,
                                       start_new_session=True, **options)
            try:
                output, _ = process.communicate(input_text, timeout=max(1, share * (self.ends - time.monotonic())))
                code = process.returncode
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # what it started too, or that would go on using the GPU
                code, output = -1, process.communicate()[0]
        except FileNotFoundError as missing:
            code, output = 127, str(missing)
        self.log.write(output)
        self.log.flush()
        return code, output

    def require(self, command, **options):
        code, output = self.run(command, **options)
        if code:
            self.findings["status"] = "out of time" if code == -1 else f"failed ({code})"
            self.findings["tail"] = output[-1500:]
        return code == 0, output


def build_folder(rehearse):
    return SOURCE / "build" / ("emulated" if rehearse else "gpu_build")


def configure(part):
    if part.rehearse:
        part.require(["cmake", "--preset", "emulated"])
        return
    capability = subprocess.run(["nvidia-smi", "--query-gpu=compute_cap,name,driver_version", "--format=csv,noheader"],
                                text=True, capture_output=True).stdout.strip()
    part.findings["gpu"] = capability
    if PACKED.exists():  # built on another machine
        build_folder(False).mkdir(parents=True, exist_ok=True)
        if part.require(["tar", "-C", str(build_folder(False)), "-xf", str(PACKED)])[0]:
            part.require([str(build_folder(False) / "bin/cuda_bench"), "--tiny", "copy"])  # a first kernel
        return
    major_minor = capability.split(",")[0].replace(".", "") or "90"
    architecture = major_minor + ("a" if major_minor == "90" else "")
    part.require(["cmake", "--preset", "cuda", "-B", str(build_folder(False)),
                  f"-DREPRISE_CUDA_ARCHITECTURES={architecture}"])


def build(part):
    if PACKED.exists() and not part.rehearse:
        return
    part.require(["cmake", "--build", str(build_folder(part.rehearse)), "-j", str(os.cpu_count())])


def tests(part):
    """Every test that follows the device, on the GPU; a failure of one file does not hide the others."""
    code, output = part.run(["ctest", "--test-dir", str(build_folder(part.rehearse)), "-L", "cuda", "-j",
                             str(os.cpu_count()), "--output-on-failure", "--timeout", "60"],
                            env={**os.environ, "REPRISE_NUM_THREADS": "2"})
    summary = re.search(r"(\d+)% tests passed, (\d+) tests failed out of (\d+)", output)
    part.findings["summary"] = summary.group(0) if summary else "no summary"
    part.findings["failed"] = re.findall(r"^\s*\d+ - (\S+) \(", output, re.MULTILINE)
    if code:
        part.findings["status"] = "out of time" if code == -1 else "failed"


def recompute(part):
    """Training with and without recompute on the GPU: every bit the same, in each precision."""
    device = ["--device", "cpu" if part.rehearse else "cuda"]
    sizes = ["--batch", "2", "--steps", "2"] if part.rehearse else []
    part.findings["rows"] = []
    for precision in ("f32", "bf16", "f16", "bf16-pure"):
        for strategy in ("full", "selective", "offload"):
            code, output = part.run([str(build_folder(part.rehearse) / "bin/reprise-recompute"), "verify", *device, *sizes,
                                     "--precision", precision, "--recompute", strategy], share=0.5)
            verdict = re.search(r"^(PASS|FAIL).*$", output, re.MULTILINE)
            part.findings["rows"].append({"precision": precision, "strategy": strategy,
                                          "verdict": verdict.group(0) if verdict else output[-300:]})
            if code:
                part.findings["status"] = "out of time" if code == -1 else "failed"


def profile(part):
    """Where the time of a training step goes, by kernel: Nsight Compute's durations of single launches."""
    program = shutil.which("ncu") or "/usr/local/cuda/bin/ncu"
    if part.rehearse or not pathlib.Path(program).exists():
        part.findings["status"] = "not run: " + ("a rehearsal" if part.rehearse else "ncu is not there")
        return
    code, output = part.run([program, "--clock-control", "none", "--cache-control", "none", "--metrics",
                             "gpu__time_duration.sum", "--csv", "--launch-skip", "1000", "--launch-count", "900",
                             str(build_folder(False) / "bin/gpt_bench"), "--model", "gpt2_124m_gpu", "--device", "cuda",
                             "--bf16", "--steps", "1"], input_text="run\n" * 2)
    (OUT / "profile.csv").write_text(output)
    if code:
        part.findings["status"] = "out of time" if code == -1 else "failed"


def sanitizer(part):
    program = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if part.rehearse or not pathlib.Path(program).exists():
        part.findings["status"] = "not run: " + ("a rehearsal" if part.rehearse else "compute-sanitizer is not there")
        return
    for number, (tool, tests_filter) in enumerate(SANITIZED.items()):
        code, output = part.run([program, "--tool", tool, "--error-exitcode", "9",
                                 str(build_folder(False) / "bin/kernels_tests"), "--gtest_brief=1",
                                 f"--gtest_filter={tests_filter}"], share=1 / (len(SANITIZED) - number),
                                env={**os.environ, "REPRISE_TEST_DEVICE": "cuda"})
        part.findings[tool] = {0: "clean", 9: "ERRORS", -1: "out of time"}.get(code, f"tests failed ({code})")
        if code:
            part.findings["status"] = "out of time" if code == -1 else "failed"
            part.findings["tail"] = output[-1500:]


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def kernels(part):
    tiny = ["--tiny"] if part.rehearse else []
    ok, ours = part.require([str(build_folder(part.rehearse) / "bin/cuda_bench"), *tiny])
    code, theirs = part.run([os.environ.get("REPRISE_PYTHON", "python3"), "benchmarks/torch_cuda.py", *tiny])
    peer = {row["name"]: row for row in json_lines(theirs)}
    part.findings["rows"] = [
        {**row, "torch_microseconds": peer.get(row["name"], {}).get("microseconds"),
         "ratio": round(peer[row["name"]]["microseconds"] / row["microseconds"], 3) if row["name"] in peer else None}
        for row in json_lines(ours)]
    if code:
        part.findings["peer"] = "PyTorch did not finish: " + theirs[-300:]


class Trainer:
    """A process that trains for a while at each line "run" (see benchmarks/gpt_bench.cpp)."""

    def __init__(self, part, name, command):
        self.part, self.name, self.records = part, name, []
        self.process = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=part.log, cwd=SOURCE)
        self.watch = threading.Timer(max(1, part.ends - time.monotonic()), self.process.kill)
        self.watch.start()
        self.step()
        self.records.clear()

    def step(self):
        """One round; the records stop growing when the process ends."""
        try:
            print("run", file=self.process.stdin, flush=True)
            for line in self.process.stdout:
                if line.startswith("{") and "seconds_per_step" in line:
                    self.records.append(json.loads(line))
                    return
        except BrokenPipeError:
            pass

    def stop(self):
        self.watch.cancel()
        self.process.kill()
        self.process.wait()


def train_each(part, commands):
    """Rows of findings: the median step of each command, in rounds. What matters most comes first."""
    rows = []
    for name, command in commands.items():
        if time.monotonic() > part.ends:
            part.findings["status"] = "out of time"
            break
        trainer = Trainer(part, name, command)
        for _ in range(1 if part.rehearse else ROUNDS):
            if time.monotonic() < part.ends:
                trainer.step()
        trainer.stop()
        seconds = [record["seconds_per_step"] for record in trainer.records]
        rows.append({"name": name, "milliseconds": round(1e3 * statistics.median(seconds), 2) if seconds else None,
                     "rounds": len(seconds), "peak_bytes": max((r.get("peak_device_bytes", 0) for r in trainer.records), default=0),
                     "attention": trainer.records[-1].get("attention", "") if seconds else ""})
        if not seconds:
            part.findings["status"] = f"{name} did not train"
    part.findings["rows"] = rows


def train(part):
    """GPT-2 124M: ours against PyTorch eager and compiled."""
    model = ["--model", "gpt_small" if part.rehearse else "gpt2_124m_gpu", "--device", "cpu" if part.rehearse else "cuda"]
    ours = [str(build_folder(part.rehearse) / "bin/gpt_bench"), *model]
    peer = [os.environ.get("REPRISE_PYTHON", "python3"), "benchmarks/torch_gpt.py", *model]
    commands = {"Reprise bf16": [*ours, "--bf16"], "PyTorch bf16 eager": [*peer, "--bf16"],
                "PyTorch bf16 compiled": [*peer, "--bf16", "--compile"], "Reprise bf16 autocast": [*ours, "--autocast"],
                "Reprise f16 autocast": [*ours, "--autocast-f16"]}
    if part.rehearse:
        commands |= {"Reprise f32": ours, "PyTorch f32 eager": peer}
    else:
        commands |= {"PyTorch bf16 autocast compiled": [*peer, "--autocast", "--compile"],
                     "Reprise bf16, cuDNN's attention": [*ours, "--bf16", "--attention", "cudnn"],
                     "Reprise bf16, portable attention": [*ours, "--bf16", "--attention", "reprise"],
                     "Reprise bf16, recompute": [*ours, "--bf16", "--recompute", "full"],
                     "PyTorch bf16, recompute": [*peer, "--bf16", "--recompute", "full"],
                     "Reprise TF32": [*ours, "--high", "--steps", "2"], "PyTorch TF32 eager": [*peer, "--high"]}
    train_each(part, commands)


def vision(part):
    """ViT-B/16 and ResNet-50 under autocast: ours against timm's and torchvision's models, eager and compiled."""
    device = ["--device", "cpu" if part.rehearse else "cuda"]
    ours = [str(build_folder(part.rehearse) / "bin/vision_bench"), *device, "--autocast", "--model"]
    peer = [os.environ.get("REPRISE_PYTHON", "python3"), "benchmarks/torch_vision.py", *device, "--autocast", "--model"]
    vit, resnet = ("vit_192", "resnet18_cifar") if part.rehearse else ("vit_b16_gpu", "resnet50_gpu")
    train_each(part, {"Reprise ViT": [*ours, vit], "PyTorch ViT eager": [*peer, vit],
                      "PyTorch ViT compiled": [*peer, vit, "--compile"], "Reprise ResNet": [*ours, resnet],
                      "PyTorch ResNet eager, channels last": [*peer, resnet, "--channels-last"]})


PARTS = {"configure": configure, "build": build, "tests": tests, "recompute": recompute, "kernels": kernels, "train": train,
         "vision": vision, "profile": profile, "sanitizer": sanitizer}


def machine():
    gpu = subprocess.run(["nvidia-smi", "-L"], text=True, capture_output=True).stdout if shutil.which("nvidia-smi") else ""
    return re.sub(r" \(UUID.*?\)", "", gpu).strip() or "no GPU"


def kernel_times(path):
    """[(kernel, launches, milliseconds)] of the last whole step in Nsight Compute's list: from update to update."""
    text = path.read_text()
    rows = list(csv.DictReader(io.StringIO(text[text.find('"ID"'):])))
    launches = [(re.sub(r"\((anonymous namespace|unnamed)\)::|<unnamed>::|^void ", "", row["Kernel Name"]).split("(")[0][:110],
                 float(row["Metric Value"].replace(",", "")) *
                 {"ns": 1e-6, "us": 1e-3, "usecond": 1e-3, "nsecond": 1e-6, "ms": 1, "msecond": 1}[row["Metric Unit"]])
                for row in rows if row.get("Metric Value")]
    ends = [i for i, (name, _) in enumerate(launches)
            if "step_kernel" in name and (i + 1 == len(launches) or "step_kernel" not in launches[i + 1][0])]
    if len(ends) > 1:
        launches = launches[ends[-2] + 1:ends[-1] + 1]
    sums = {}
    for name, milliseconds in launches:
        count, total = sums.get(name, (0, 0.0))
        sums[name] = (count + 1, total + milliseconds)
    return sorted(((name, *sums[name]) for name in sums), key=lambda row: -row[2])


def write_report(findings, rehearse):
    (OUT / "report.json").write_text(json.dumps(findings, indent=1) + "\n")
    packed = build_folder(rehearse) / "commit"  # of a build from another machine
    commit = packed.read_text().strip() if packed.exists() else subprocess.run(
        ["git", "describe", "--always", "--dirty"], text=True, capture_output=True, cwd=SOURCE).stdout.strip()
    lines = ["# GPU report" + (" (a rehearsal without a GPU)" if rehearse else ""), "",
             f"{datetime.date.today()}, commit {commit or 'unknown'}, {machine()}, {os.cpu_count()} cores: "
             "`tools/gpu_report.sh`", "", "| part | result | seconds |", "|---|---|---|"]
    lines += [f"| {name} | {part['status']}{', ' + part['summary'] if 'summary' in part else ''} | {part['seconds']} |"
              for name, part in findings.items()]
    for name, part in findings.items():
        for key in ("gpu", "failed", "memcheck", "racecheck", "peer", "tail"):
            if part.get(key):
                lines += ["", f"{name}, {key}: `{part[key]}`" if key != "tail" else f"{name}:\n```\n{part[key]}\n```"]
    if "kernels" in findings:
        lines += ["", "## Kernels", "", "| kernel | us | GB/s | TFLOP/s | PyTorch, us | PyTorch / ours |", "|---|---|---|---|---|---|"]
        lines += [f"| {r['name']} | {r['microseconds']} | {r['gigabytes_per_second']} | {r['teraflops']} | "
                  f"{r['torch_microseconds']} | {r['ratio']} |" for r in findings["kernels"].get("rows", [])]
    if "recompute" in findings:
        lines += ["", "## Recompute", "", "| precision | strategy | verdict |", "|---|---|---|"]
        lines += [f"| {r['precision']} | {r['strategy']} | {r['verdict']} |" for r in findings["recompute"].get("rows", [])]
    for name, title in (("train", "A training step of GPT-2 124M"), ("vision", "A training step of ViT-B/16 and ResNet-50")):
        if name in findings:
            lines += ["", f"## {title}", "",
                      "| | ms | rounds | peak device memory, GiB | attention ran on, forward/backward |", "|---|---|---|---|---|"]
            lines += [f"| {r['name']} | {r['milliseconds']} | {r['rounds']} | {r['peak_bytes'] / 2**30:.1f} | {r.get('attention', '')} |"
                      for r in findings[name].get("rows", [])]
    if (OUT / "profile.csv").exists():
        lines += ["", "## A step by kernel", "", "| kernel | launches | ms |", "|---|---|---|"]
        lines += [f"| {name} | {count} | {milliseconds:.2f} |" for name, count, milliseconds in kernel_times(OUT / "profile.csv")]
    (OUT / "report.md").write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(prog="gpu_report.sh")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="PART")
    parser.add_argument("--rehearse", action="store_true")
    parser.add_argument("--again", action="store_true", help="run parts that are done once more")
    arguments = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    kept = OUT / "report.json"
    findings = json.loads(kept.read_text()) if kept.exists() else {}
    for name in arguments.parts or PARTS:
        if findings.get(name, {}).get("status") == "passed" and not arguments.again:
            continue
        part, begin = Part(name, arguments.rehearse), time.monotonic()
        PARTS[name](part)
        findings[name] = {**part.findings, "seconds": round(time.monotonic() - begin)}
        print(f"{name}: {part.findings['status']} ({findings[name]['seconds']} s)", flush=True)
        write_report({n: findings[n] for n in PARTS if n in findings}, arguments.rehearse)
        if name in ("configure", "build") and part.findings["status"] != "passed":
            break
    print(f"report: {(OUT / 'report.md').relative_to(SOURCE)}")
    return any(part["status"] != "passed" and not part["status"].startswith("not run") for part in findings.values())


sys.exit(main())
