"""A copy of the tree in which a tool breaks the code, builds it and runs its tests; the tree itself is never touched.

What is compiled alike in the tree is not compiled again where ccache is installed: the copy is built with the same flags.
Broken code is built with -O1, which takes a third of the time; the presets asan and tsan run all tests so. Flags for it
stand in a file that the compiler reads (g++ @flags), which is empty while nothing is broken.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent
# How tests are run, as cmake/DiscoverTests.cmake does: {name of the run: environment}.
ON_CPU = {"": {}}
# Products of bf16 by the models of the instructions that this CPU may lack.
ON_BF16_MODELS = {model: {"REPRISE_ISA": model} for model in ("amx-model", "avx512bf16-model")}
_LATE = {"REPRISE_EMULATOR_STREAMS": "deferred", "REPRISE_EMULATOR_GUARD": "1"}
LATE_STREAMS = {"late streams": _LATE}
ON_CUDA = {order: {"REPRISE_TEST_DEVICE": "cuda", "REPRISE_EMULATOR_ORDER": order, **more}
           for order, more in (("forward", {}), ("reverse", _LATE), ("random", {}))}
# Products of the emulator by the model of cuBLASLt, as it may be.
ON_CUBLASLT = {model: {"REPRISE_TEST_DEVICE": "cuda", "REPRISE_EMULATOR_CUBLASLT": model} for model in ("plain", "unkind")}
ON_CUDNN = {model: {"REPRISE_TEST_DEVICE": "cuda", "REPRISE_EMULATOR_CUDNN": model} for model in ("plain", "unkind")}
MEMORY = 12 << 30  # bytes that a test program may take, so that a broken size does not take the machine's
BUILD_SECONDS = 900  # for what one edit changes


def refuse(message):
    print(pathlib.Path(sys.argv[0]).stem.replace("_", "-") + ": " + message, file=sys.stderr)
    sys.exit(2)


def program_of(test):
    """The program that holds a test file: kernels_tests for kernels/gemm/gemm."""
    return test.split("/")[0] + "_tests"


def _limits():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


def run(command, seconds=None, **options):
    """The exit code and what is printed. A run past its time ends with all that it started, and the code is None."""
    process = subprocess.Popen(command, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True, **options)
    try:
        output, _ = process.communicate(timeout=seconds)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return None, process.communicate()[0]
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        raise


class CopiedTree:
    """The copy at build/NAME/tree, with a build folder per preset inside it."""

    def __init__(self, name):
        self.work = SOURCE / "build" / name
        self.tree = self.work / "tree"
        self.flags = self.work / "flags"
        self.work.mkdir(parents=True, exist_ok=True)
        self.lock = open(self.work / "lock", "w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            refuse(f"{self.work} is in use by another run")
        self.flags.write_text("")
        self.listings = {}
        self._copy()

    def _copy(self):
        """Files that did not change keep their time, so that little is rebuilt."""
        names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=SOURCE, check=True, text=True,
                               capture_output=True).stdout.split("\n")
        wanted = {name for name in names if name and (SOURCE / name).is_file()}
        for name in sorted(wanted):
            to, content = self.tree / name, (SOURCE / name).read_bytes()
            if not to.exists() or to.read_bytes() != content:
                to.parent.mkdir(parents=True, exist_ok=True)
                to.write_bytes(content)
        for folder, folders, files in os.walk(self.tree):
            if pathlib.Path(folder) == self.tree and "build" in folders:
                folders.remove("build")
            for file in files:
                path = pathlib.Path(folder) / file
                if str(path.relative_to(self.tree)) not in wanted:
                    path.unlink()

    def build_folder(self, preset):
        return self.tree / "build" / preset

    def configure(self, preset):
        code, output = run(["cmake", "--preset", preset, "-DREPRISE_BUILD_APPS=ON", "-DREPRISE_BUILD_BENCHMARKS=OFF",
                            f"-DCMAKE_CXX_FLAGS_RELEASE=-O3 -DNDEBUG @{self.flags}", "-DCMAKE_EXE_LINKER_FLAGS=" + self._fast_linker()],
                           cwd=self.tree)
        if code:
            refuse(f"cannot configure:\n{output}")

    @staticmethod
    def _fast_linker():
        return "-fuse-ld=lld" if run(["sh", "-c", "command -v ld.lld"])[0] == 0 else ""

    def build(self, preset, program, broken=False):
        """None if it builds, else what the compiler says. Broken code may leave things unused."""
        self.flags.write_text("-w -O1\n" if broken else "")
        code, output = run(["cmake", "--build", str(self.build_folder(preset)), "--target", program],
                           BUILD_SECONDS if broken else None)
        if not broken:
            self.listings.pop((preset, program), None)
        return None if code == 0 else output if code else f"error: no end after {BUILD_SECONDS} s"

    @contextlib.contextmanager
    def broken(self, file, text):
        """The file holds `text` for a while."""
        path = self.tree / file
        original = path.read_text()
        path.write_text(text)
        try:
            yield
        finally:
            path.write_text(original)

    def binaries(self, preset, program):
        """A hash of the library and the program: alike for two trees that compile to the same machine code."""
        folder = self.build_folder(preset)
        digest = hashlib.sha256()
        for path in (folder / "libreprise.a", folder / "bin" / program):
            digest.update(path.read_bytes())
        return digest.hexdigest()

    def suites(self, preset, program):
        """{test file, as kernels/gemm/gemm: GoogleTest's filter of its suites}."""
        if (preset, program) not in self.listings:
            folder = self.build_folder(preset)
            listing = self.work / "listing.json"
            code, output = run([str(folder / "bin" / program), "--gtest_list_tests", f"--gtest_output=json:{listing}"])
            if code:
                refuse(f"{program} does not list its tests:\n{output}")
            found = {}
            for suite in json.loads(listing.read_text())["testsuites"]:
                for test in suite["testsuite"]:
                    path = os.path.normpath(folder / test["file"])
                    name = os.path.splitext(os.path.relpath(path, self.tree / "tests"))[0].removesuffix("_test")
                    found.setdefault(name, {})[suite["name"]] = None
            self.listings[preset, program] = {name: ":".join(f"{suite}.*" for suite in suites)
                                              for name, suites in found.items()}
        return self.listings[preset, program]

    def caught_by(self, preset, program, test_filter, runs, seconds):
        """How the tests notice: the way they ran and the first complaint; None if they pass."""
        for name, settings in runs.items():
            command = [str(self.build_folder(preset) / "bin" / program), "--gtest_brief=1", "--gtest_fail_fast",
                       f"--gtest_filter={test_filter}"]
            code, output = run(command, seconds, env=dict(os.environ, **settings), preexec_fn=_limits)
            where = name + ": " if name else ""
            if code is None:
                return f"{where}no end after {seconds:.0f} s"
            if code:
                return where + self._complaint(code, output)
        return None

    def _complaint(self, code, output):
        lines = [line.strip() for line in output.splitlines()]
        failures = [i for i, line in enumerate(lines) if line.endswith("Failure") or "ERROR:" in line]
        if not failures:
            return f"ended by {code}"
        complaint = " ".join(lines[failures[0]:failures[0] + 3])
        return complaint.replace(str(self.tree) + "/", "").replace("../../", "")[:160]
