"""tcemu.live without a GPU: what is missing, what goes wrong on one, what is compared, recorded and made small."""

import json
import subprocess
import sys
import time
from pathlib import Path

import live_fakes
import numpy as np
import pytest
from click.testing import CliRunner

import tcemu
import tcemu.cli
from tcemu import live
from tcemu.errors import CompilationError, GpuError, GpuUnavailable, OperandError, TargetError, TcemuError
from tcemu.instructions.parse import FAMILIES
from tcemu.live import process, words
from tcemu.live.cases import Case, cases, emulator, gpu, kinds
from tcemu.live.compare import judge
from tcemu.live.makers import MAKERS
from tcemu.live.minimise import minimise
from tcemu.live.record import record
from tcemu.live.run import recordable
from tcemu.live.verify import verify

TESTS = Path(__file__).parent
OPCODE = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"
STORE = "stmatrix.sync.aligned.m8n8.x1.shared.b16"


RUNNING = []


@pytest.fixture
def card(monkeypatch, request):
    """The GPU that the test's parameter names in live_fakes; by default the emulator plays it."""
    name = getattr(request, "param", "EmulatedGpu")
    start = f"import sys; sys.path.insert(0, {str(TESTS)!r}); import live_fakes; "
    monkeypatch.setattr(process, "START_CODE", f"{start}from tcemu.live.worker import main; main(live_fakes.{name})")
    monkeypatch.setattr(sys.modules["tcemu.live.device"], "_installed", lambda module: True)
    if [name] != RUNNING or name != "EmulatedGpu":  # starting one takes a while
        process.close()
    RUNNING[:] = [name]
    return name


@pytest.fixture(scope="module", autouse=True)
def nothing_stays():
    yield
    process.close()


def sample(opcode=OPCODE, warps=2, kind="near"):
    return next(cases(tcemu.parse(opcode), kind, warps))


# ------------------------------------------------------------------------------------------------ what is missing


def test_importing_live_loads_nothing_of_cuda():
    probe = "import tcemu.live, sys; print([name for name in sys.modules if name.split('.')[0] in ('cuda', 'cupy')])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    probe = "import tcemu, sys; print('tcemu.live' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout == "False\n"


def test_without_the_packages_it_says_which_extra(monkeypatch):
    monkeypatch.setattr(sys.modules["tcemu.live.device"], "_installed", lambda module: module != "cuda.core")
    start = time.monotonic()
    assert live.available() is False
    assert live.why_not() == 'cuda-core is not installed: pip install "tcemu[gpu]"'
    assert time.monotonic() - start < 0.1
    for ask in (lambda: live.run(OPCODE), lambda: live.compare(OPCODE), lambda: live.cuda("", "f", 1, 1)):
        with pytest.raises(GpuUnavailable, match=r"tcemu\[gpu\]"):
            ask()


MISSING = {
    "no_driver": "NVIDIA's driver is not installed, or this process does not find it (libcuda.so.1 not found)",
    "no_device": "the driver is there, but no GPU: is CUDA_VISIBLE_DEVICES set",
    "too_old_a_device": "Tesla P100 has compute capability 6.0; tensor cores came with 7.0",
    "too_new_a_device": "NVIDIA X1 has compute capability 99.0, which this version of tcemu does not know",
    "ends_at_once": "the process that holds the GPU ended unexpectedly (exit code 3)",
}


@pytest.mark.parametrize(("card", "message"), MISSING.items(), ids=MISSING, indirect=["card"])
def test_what_is_missing_is_told(card, message):
    assert live.why_not().startswith(message)
    assert live.available() is False
    RUNNING.clear()


def test_the_real_worker_without_a_driver(monkeypatch):
    """Where NVIDIA's packages are missing, or the driver, the process says so and ends."""
    RUNNING.clear()
    monkeypatch.setattr(sys.modules["tcemu.live.device"], "_installed", lambda module: True)
    process.close()
    if not live.available():
        assert "driver" in live.why_not()
    process.close()


@pytest.mark.parametrize("name", sorted(words._WORDS))
def test_every_trouble_has_words(name):
    told = words.in_words(name, 2.0)
    assert len(told) > 25
    assert "{" not in told
    assert told.endswith(f"({name})") == name.startswith("CUDA_")
    assert words.after(told).endswith(words.AFTERWARDS)


def test_an_error_that_nobody_wrote_words_for_keeps_its_name():
    assert words.in_words("CUDA_ERROR_NEW") == "the driver reports an error (CUDA_ERROR_NEW)"
    assert words.missing(["a", "b"]) == 'a and b are not installed: pip install "tcemu[gpu]"'


# ------------------------------------------------------------------------------------------------ running


def test_the_device_is_told(card):
    assert live.available()
    assert live.why_not() == ""
    device = live.device()
    assert (device.target, device.ptx) == ("sm_90a", "9.0")
    assert str(device) == "Emulated GPU (sm_90a), driver 580.0, CUDA 13.0"


SOME = [instruction.opcode for instruction in recordable(live_fakes.CARD)][::31]


@pytest.mark.parametrize("opcode", SOME)
def test_operands_and_answers_travel(card, opcode):
    instruction = tcemu.parse(opcode)
    for case in cases(instruction, kinds(instruction)[0], 3, "fakes"):
        answer, expected = case.answer(gpu), case.answer(emulator("sm_90a"))
        assert answer.dtype == expected.dtype
        assert np.array_equal(answer, expected)


@pytest.mark.parametrize("shape", ["dense", "sparse"])
def test_block_scaled_operands_travel(monkeypatch, shape):
    """Blackwell has them; the fake reads the byte-ids and thread-ids out of the kernel."""
    card = live.Device("Emulated Blackwell", (12, 0), 13000, "", 101376)
    monkeypatch.setattr(live_fakes.EmulatedGpu, "device", card)
    monkeypatch.setattr(sys.modules["tcemu.live.run"], "device", lambda: card)
    answering = live_fakes.EmulatedGpu()
    monkeypatch.setattr(process, "ask", lambda job: process.Answer(answering.run(job)))
    family = next(family for family in FAMILIES if family.name == "mma.block_scale")
    found = next(each for _, each in family.variants if ("e" in each.fragments) == (shape == "sparse"))
    for case in list(cases(found, "near", 2, "fakes"))[::7]:
        assert np.array_equal(case.answer(gpu), case.answer(emulator("sm_120a")))


def test_leading_axes_broadcast(card):
    a, b, c = sample(warps=6).operands
    spread = a.reshape(2, 3, *a.shape[1:])
    assert np.array_equal(live.run(OPCODE, spread, b[0], c[:3]), tcemu.run(OPCODE, spread, b[0], c[:3]))
    assert live.run(OPCODE, a[:0], b[:1], c[:1]).shape == (0, 32, 4)


@pytest.mark.parametrize("leading", [(), (3,), (2, 1)])
def test_stores_change_memory_in_place_in_the_order_of_the_warps(card, leading):
    memory = [np.zeros((*leading, 333), np.uint8) for _ in range(2)]
    registers = np.arange(6 * 32, dtype=np.uint32).reshape(2, 3, 32, 1)
    addresses = np.arange(32) * 16 % 320
    for run, bytes_ in zip((live.run, tcemu.run), memory, strict=True):
        assert run(STORE, addresses, registers, shared=bytes_) is None
    assert memory[0].any()
    assert np.array_equal(*memory)


WRONG = [
    (lambda a, b, c: (OPCODE, a, b), {}),
    (lambda a, b, c: (OPCODE, a[..., :1], b, c), {}),
    (lambda a, b, c: (OPCODE, a.astype(float), b, c), {}),
    (lambda a, b, c: (OPCODE, a[:2], b[:3], c), {}),
    (lambda a, b, c: (OPCODE, a, b, c), {"shared": np.zeros(16, np.uint8)}),
    (lambda a, b, c: ("mma.sync.aligned.m16n8k9", a, b, c), {}),
    (lambda a, b, c: (7, a, b, c), {}),
    (lambda a, b, c: ([], a, b, c), {}),
    (lambda a, b, c: ("mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", a, b, c), {}),
    (lambda a, b, c: (STORE, np.arange(32) * 8, np.zeros((32, 1), np.uint32)), {"shared": np.zeros(512, np.uint8)}),
    (lambda a, b, c: (STORE, np.arange(32) * 16, np.zeros((32, 1), np.uint32)), {"shared": np.zeros(64, np.uint8)}),
    (lambda a, b, c: (STORE, np.arange(32) * 16, np.zeros((32, 1), np.uint32)), {"memory": np.zeros(512, np.uint8)}),
    (lambda a, b, c: (STORE, np.arange(32) * 16, np.zeros((32, 1), np.uint32)), {}),
    (lambda a, b, c: (STORE, np.arange(32) * 16, np.zeros((32, 1), np.uint32)), {"shared": [0] * 512}),
    (lambda a, b, c: (STORE, np.arange(32) * 16, np.zeros((32, 1), np.uint32)), {"shared": np.frombuffer(bytes(512), np.uint8)}),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_operands_are_refused_in_the_emulators_words(card, number):
    make, memories = WRONG[number]
    given = make(*sample(warps=4).operands)
    with pytest.raises(TcemuError) as here:
        tcemu.run(*given, **memories)
    with pytest.raises(type(here.value)) as there:
        live.run(*given, **memories)
    if isinstance(here.value, OperandError):
        assert str(there.value) == str(here.value)


def test_metadata_that_is_not_legal_never_reaches_the_gpu(card):
    a, b, c, _, f = sample("mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32").operands
    with pytest.raises(OperandError, match="metadata of lane 0"):
        live.run("mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", a, b, c, np.zeros((2, 32), np.uint32), f)


def test_what_the_card_lacks_is_told(card):
    blackwell = "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e4m3.f32"
    with pytest.raises(GpuUnavailable, match=r"needs sm_100f .*; this GPU is sm_90a\. tcemu\.run emulates it"):
        live.run(blackwell)
    with pytest.raises(TargetError, match="a GPU answers for itself: this one is Emulated GPU, sm_90a, not sm_80"):
        live.run(OPCODE, *sample().operands, target="sm_80")
    assert live.run(OPCODE, *sample().operands, target="sm_90").shape == (2, 32, 4)
    later = [family for family in FAMILIES if family.name not in MAKERS]
    for family in later:
        with pytest.raises(GpuUnavailable, match=f"{family.name} runs in the emulator only"):
            live.run(family.variants[0][1])


def test_more_shared_memory_than_a_block_has(card):
    with pytest.raises(OperandError, match=r"shared= has 300000 bytes; a block on Emulated GPU has at most 232448"):
        live.run(STORE, np.arange(32) * 16, np.zeros((32, 1), np.uint32), shared=np.zeros(300000, np.uint8))


# ------------------------------------------------------------------------------------------------ what goes wrong

TROUBLE = {
    "hang": (GpuError, r"did not end within 0\.5 s, .* never reach\? Your session goes on"),
    "illegal_address": (GpuError, r"an address that no array has; .*CUDA_ERROR_ILLEGAL_ADDRESS\)\. Your session goes"),
    "illegal_instruction": (GpuError, r"CUDA_ERROR_ILLEGAL_INSTRUCTION\)\. Your session goes on"),
    "crash": (GpuError, r"ended unexpectedly \(exit code 7\)\. Your session goes on"),
    "deaf": (GpuError, r"gave no answer within .* s and was stopped\. Your session goes on"),
    "syntax": (CompilationError, r'1 error:\nline 2: error: identifier "y" is undefined\n    x\[0\] = y;'),
}


@pytest.mark.parametrize("card", ["Troubled"], indirect=True)
@pytest.mark.parametrize("name", TROUBLE)
def test_trouble_is_told_and_the_next_call_works(card, name, monkeypatch):
    monkeypatch.setattr(process, "AROUND", 2.0)
    error, message = TROUBLE[name]
    x = np.arange(4, dtype=np.float32)
    with pytest.raises(error, match=message):
        live.cuda("__global__ void f(float* x) {\n    x[0] = y;\n}", name, 1, 1, x, seconds=0.5)
    live.cuda("", "twice", 1, 1, x)
    assert x.tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize("card", ["Troubled"], indirect=True)
def test_an_interrupt_stops_the_kernel_too(card, monkeypatch):
    worker = process.current()

    def interrupted(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(worker, "_next", interrupted)
    with pytest.raises(KeyboardInterrupt):
        live.cuda("", "deaf", 1, 1)
    assert not worker.alive
    live.cuda("", "twice", 1, 1, np.zeros(1))


@pytest.mark.parametrize("card", ["Troubled"], indirect=True)
def test_what_a_kernel_prints_is_printed(card, capsys):
    for _ in range(2):
        live.cuda("", "says", 1, 1)
        assert capsys.readouterr().out == "hello from a thread\n"


@pytest.mark.parametrize("card", ["Troubled"], indirect=True)
def test_arrays_come_back_unless_they_are_read_only(card):
    x = np.arange(6).reshape(2, 3).T
    fixed = np.ones(3)
    fixed.flags.writeable = False
    live.cuda("", "twice", (1, 2), 32, x, fixed, np.float32(1))
    assert x.tolist() == [[0, 6], [2, 8], [4, 10]]
    assert fixed.tolist() == [1, 1, 1]


ARGUMENTS = [
    ((1, 1, 2.0), {}, r"argument 0: 2\.0 does not say its C type; write np\.float32"),
    ((1, 1, 2), {}, r"argument 0: 2 does not say its C type; write np\.int32"),
    ((1, 1, "x"), {}, "a numpy array or a numpy scalar is needed; got str"),
    ((1, 1, np.array([None])), {}, "an array of object has no C type"),
    ((0, 1), {}, "grid is a positive int or a tuple of up to three; got 0"),
    ((1, (1, 1, 1, 1)), {}, "block is a positive int or a tuple of up to three"),
    ((1, 1), {"shared": 1 << 30}, "shared= is 0 to 232448 bytes on Emulated GPU"),
    ((1, 1), {"seconds": 0}, "seconds= is more than 0"),
    ((1, 1), {"options": ["-G"]}, "options are -IFOLDER and -DNAME"),
]


@pytest.mark.parametrize(("given", "named", "message"), ARGUMENTS, ids=range(len(ARGUMENTS)))
def test_wrong_arguments_of_cuda(card, given, named, message):
    with pytest.raises(OperandError, match=message):
        live.cuda("", "f", *given, **named)


def test_a_kernel_that_is_not_there_and_a_header_that_is_not():
    log = '__nv_name_map(2): error: identifier "g" is undefined'
    assert sys.modules["tcemu.live.cuda"].told("", "g", log).startswith("the source compiles, but has no kernel 'g'")
    log = 'kernel.cu(1): catastrophic error: cannot open source file "mma.h"'
    assert "pip install nvidia-cuda-runtime" in sys.modules["tcemu.live.cuda"].told("#include <mma.h>", "g", log)


# ------------------------------------------------------------------------------------------------ comparing


def test_equal_answers(card):
    found = live.compare(OPCODE, *sample().operands)
    assert found
    assert str(found) == "equal, 256 registers"


@pytest.mark.parametrize("card", ["Wrong"], indirect=True)
def test_a_difference_is_told_to_the_bit(card):
    a, b, c = sample().operands
    a[0, 0, 0], a[1, 0, 0] = 0, 8
    found = live.compare(OPCODE, a, b, c)
    assert not found
    first = found.first
    assert (first.warp, first.lane, first.register, first.bit, first.row, first.column) == ((1,), 0, 0, 0, 0, 0)
    assert first.gpu ^ first.emulator == 1
    text = str(found)
    for part in ("1 of 256 registers differ", "warp 1, lane 0, register 0, bit 0 (row 0, column 0)", "the GPU has 0x"):
        assert part in text
    assert "arithmetic row: 1 fused sum of 8 products, 25 bits kept; silicon" in text


def test_the_element_of_a_shared_register_is_found():
    """Bit 20 of a register with two f16 is in its second element: one column further."""
    instruction = tcemu.parse("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16")
    one = np.zeros((32, 2), np.uint32)
    other = one.copy()
    other[5, 1] = 1 << 30
    first = judge(instruction, other, one, "GPU", "sm_90a").first
    assert (first.warp, first.lane, first.register, first.bit) == ((), 5, 1, 30)
    assert (first.row, first.column) == instruction.fragments["d"].position(5, 1, 1)
    assert (first.gpu_value, first.emulator_value) == (2.0, 0.0)


def test_a_difference_in_memory_is_told_by_byte():
    one = np.zeros((2, 64), np.uint8)
    other = one.copy()
    other[1, 17] = 6
    found = judge(tcemu.parse(STORE), other, one, "GPU", "sm_90a")
    assert "memory 1, byte 0x11, bit 1: the GPU has 0x06, the emulator 0x00" in str(found)
    assert "128 bytes differ" in str(found)


def test_comparing_a_store_leaves_the_memory_alone(card):
    memory = np.zeros(512, np.uint8)
    assert str(live.compare(STORE, np.arange(32) * 16, np.ones((32, 1), np.uint32), shared=memory)) == "equal, 512 bytes"
    assert not memory.any()


# ------------------------------------------------------------------------------------------------ making small


def test_the_smallest_failing_input():
    """Wrong only where bit 0 of A[0][0] and of C[0][0] is set: all else becomes zero, and three numbers stay."""
    case = sample(warps=64, kind="bits")
    failing = minimise(case, lambda some: some.answer(live_fakes.flawed), lambda some: some.answer(emulator("sm_90a")), "G", "sm_90a")
    assert failing.alone
    assert failing.case.warps == 1
    assert [int(np.count_nonzero(operand)) for operand in failing.case.operands] == [1, 0, 1]
    assert failing.comparison.differing == 1
    text = str(failing)
    assert "a[0, 0] = " in text
    assert "b: zeros" in text
    assert "c[0, 0] = " in text
    assert minimise(case, lambda some: some.answer(emulator("sm_90a")), lambda some: some.answer(emulator("sm_90a")), "G", "sm_90a") is None


def test_a_difference_that_needs_its_neighbours_stays_as_it_is():
    case = sample(warps=8)
    failing = minimise(case, lambda some: some.answer(live_fakes.flickering), lambda some: some.answer(emulator("sm_90a")), "G", "sm_90a")
    assert not failing.alone
    assert failing.case is case


def test_a_load_is_made_small_too():
    case = sample("ldmatrix.sync.aligned.m8n8.x1.shared.b16", warps=4, kind="bits")

    def flawed(some: Case):
        answer = some.answer(emulator("sm_90a"))
        answer[:, 7, 0] ^= answer[:, 7, 0] & 1
        return answer

    failing = minimise(case, flawed, lambda some: some.answer(emulator("sm_90a")), "G", "sm_90a")
    assert np.count_nonzero(failing.case.bytes) == 1


# ------------------------------------------------------------------------------------------------ recording


def few(family):
    return [each for each in recordable(live_fakes.CARD) if each.family == family][:2]


def test_a_recording_says_where_it_comes_from_and_goes_on_where_it_stopped(tmp_path):
    asked = []

    def stopping(instruction, *operands, **memories):
        asked.append(instruction)
        if len(asked) == 5:
            raise KeyboardInterrupt
        return live_fakes.emulated(instruction, *operands, **memories)

    chosen = [*few("mma"), *few("ldmatrix")]
    with pytest.raises(KeyboardInterrupt):
        record(tmp_path, live_fakes.CARD, chosen, "tcemu record FOLDER", stopping)
    kept = json.loads((tmp_path / "sm_90a-mma.json").read_text())
    assert len(kept["sha256"]) == 4
    assert kept["provenance"]["gpu"] == "Emulated GPU"
    assert kept["provenance"]["driver"] == "580.0, CUDA 13.0"
    files = record(tmp_path, live_fakes.CARD, chosen, "tcemu record FOLDER", stopping)
    total = [sum(1 for each in few(name) for kind in kinds(each) for _ in cases(each, kind, 1)) for name in ("mma", "ldmatrix")]
    assert [len(file.sha256) for file in files] == total
    assert [file.new for file in files] == [total[0] - 4, total[1]]
    assert [file.differing for file in files] == [0, 0]
    with np.load(tmp_path / "sm_90a-mma.npz") as samples:
        assert set(samples) == set(files[0].sha256)
    assert not (tmp_path / "sm_90a-ldmatrix.npz").exists()
    assert not list(tmp_path.glob(".*"))
    assert [file.new for file in record(tmp_path, live_fakes.CARD, chosen, "tcemu record FOLDER", stopping)] == [0, 0]


def test_a_recording_is_the_golden_file_where_the_answers_are(tmp_path):
    chosen = few("mma.sp")
    (file,) = record(tmp_path, live_fakes.CARD, chosen, "", live_fakes.emulated)
    golden = json.loads((TESTS / "golden" / "sm_90a-mma.sp.json").read_text())["sha256"]
    assert file.sha256.items() <= golden.items()


def test_a_wrong_answer_is_recorded_as_it_is_and_counted(tmp_path):
    (file,) = record(tmp_path, live_fakes.CARD, few("mma"), "", live_fakes.flawed)
    assert file.differing > 0


@pytest.mark.parametrize("content", ["{}", "no json", '{"provenance": {}, "sha256": 3}'])
def test_a_folder_with_other_files_is_refused(tmp_path, content):
    (tmp_path / "sm_90a-mma.json").write_text(content)
    with pytest.raises(TcemuError, match=r"sm_90a-mma\.json (is no golden file|was recorded elsewhere)"):
        record(tmp_path, live_fakes.CARD, few("mma"), "", live_fakes.emulated)


def test_another_gpus_recording_is_refused(tmp_path):
    record(tmp_path, live_fakes.CARD, few("movmatrix"), "", live_fakes.emulated)
    other = live.Device("NVIDIA H100", (9, 0), 13000, "580.0", 232448)
    with pytest.raises(TcemuError, match="was recorded elsewhere, with gpu 'Emulated GPU': give another folder"):
        record(tmp_path, other, few("movmatrix"), "", live_fakes.emulated)


# ------------------------------------------------------------------------------------------------ the commands


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "verdict"), [(live_fakes.emulated, "0 differences"), (live_fakes.flawed, "a difference")])
def test_processes_share_the_instructions(answer, verdict):
    chosen = [*few("mma"), *few("ldmatrix")]
    heard = []
    outcome = verify(live_fakes.CARD, chosen, 2.0, 2, "seed", lambda out: heard.append(out.total), answer, 64)
    assert verdict in str(outcome)
    assert heard
    if verdict == "0 differences":
        assert outcome.total > 0
        assert outcome.failing is None
        assert outcome.instructions == {instruction.opcode for instruction in chosen}
    else:
        assert "a[" in str(outcome.failing)
        assert outcome.where.case().key == outcome.where.key


@pytest.mark.slow
def test_a_process_that_breaks_is_told(monkeypatch):
    with pytest.raises(TcemuError, match="not installed|driver|no GPU"):
        verify(live_fakes.CARD, few("mma"), 5.0, 1, "seed")


@pytest.mark.parametrize("command", [["record", "somewhere"], ["verify"]])
def test_the_commands_say_what_is_missing(monkeypatch, command, tmp_path):
    monkeypatch.setattr(sys.modules["tcemu.live.device"], "_installed", lambda module: False)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(tcemu.cli.commands, command)
    assert isinstance(done.exception, GpuUnavailable)
    assert "are not installed" in str(done.exception)
    assert not list(tmp_path.iterdir())


def test_record_on_the_command_line(card, tmp_path):
    done = CliRunner().invoke(tcemu.cli.commands, ["record", "--family", "movmatrix", str(tmp_path / "new")])
    assert done.exit_code == 0, done.output
    assert "1 cases, 1 of them new, 0 words differ from the emulator" in done.output
    kept = json.loads((tmp_path / "new" / "sm_90a-movmatrix.json").read_text())
    assert kept["provenance"]["command"] == "tcemu record --family movmatrix FOLDER"
    assert done.exit_code == 0


@pytest.mark.parametrize("option", [["--family", "mna"], ["--shape", "m1n1k1"]])
def test_a_family_or_shape_that_does_not_exist(card, option):
    done = CliRunner().invoke(tcemu.cli.commands, ["verify", *option])
    assert isinstance(done.exception, tcemu.IllegalInstruction)
    assert "There are" in str(done.exception)
