"""make_wheel.py PROGRAM VERSION DIST - a Python wheel with the program `symphony` and the packages of deploy/wheel and python.

The wheel's tag says which systems it runs on: auditwheel (in this process's Python path) reads which glibc the program needs at
least, and copies the other libraries into the wheel. ONNX Runtime stays outside: the package onnxruntime brings it."""
import base64
import hashlib
import pathlib
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

from elftools.elf.elffile import ELFFile

PACKAGE = "symphony_model_server"
SOURCE = pathlib.Path(__file__).resolve().parents[1] / "deploy" / "wheel"
METADATA = """Metadata-Version: 2.1
Name: symphony-model-server
Version: %s
Summary: Serves many ONNX models under latency SLOs
License: Apache-2.0
Requires-Python: >=3.10
Requires-Dist: onnxruntime >=1.21
Description-Content-Type: text/markdown

%s"""
WHEEL = """Wheel-Version: 1.0
Generator: make_wheel.py
Root-Is-Purelib: false
Tag: py3-none-linux_%s
"""
VN_NEXT, SH_INFO = 12, 44  # where these fields lie in their records, of 64-bit ELF
ENTRIES = "[console_scripts]\nsymphony = symphony_model_server:main\n"


def record(name, content):
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return "%s,sha256=%s,%d\n" % (name, digest, len(content))


def any_engine(program, folder):
    """A copy of the program that takes any version of libonnxruntime.so.1. Its one symbol, by which the program asks for a version of
    the interface, has the library's own version in its name (VERS_1.31.1), which the next library does not have. So the symbol loses
    its version, and what the program needs of versions (ELF's .gnu.version_r, a chain of records) loses that library's record."""
    copy = pathlib.Path(folder) / "symphony"
    shutil.copy(program, copy)
    subprocess.run(["patchelf", "--clear-symbol-version", "OrtGetApiBase", copy], check=True)
    with open(copy, "r+b") as file:
        elf = ELFFile(file)
        number = struct.Struct("<I" if elf.little_endian else ">I")

        def add(at, change):
            file.seek(at)
            before, = number.unpack(file.read(4))
            file.seek(at)
            file.write(number.pack(before + change))

        index, section = next((i, one) for i, one in enumerate(elf.iter_sections()) if one.name == ".gnu.version_r")
        ends, at = [], section["sh_offset"]
        for record, _ in section.iter_versions():
            ends.append((at, record.name, record["vn_next"]))
            at += record["vn_next"]
        which = [name for _, name, _ in ends].index("libonnxruntime.so.1")
        assert which > 0, "the record to be taken out is the first one"
        add(ends[which - 1][0] + VN_NEXT, ends[which][2] if ends[which][2] else -ends[which - 1][2])
        add(elf["e_shoff"] + index * elf["e_shentsize"] + SH_INFO, -1)
        dynamic = elf.get_section_by_name(".dynamic")
        tag = next(i for i, one in enumerate(dynamic.iter_tags()) if one.entry.d_tag == "DT_VERNEEDNUM")
        add(dynamic["sh_offset"] + tag * dynamic["sh_entsize"] + 8, -1)
    return copy.read_bytes()


def main():
    program, version, dist = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    info = "%s-%s.dist-info" % (PACKAGE, version)
    top = SOURCE.parents[1]
    files = {"%s/%s" % (path.parent.name, path.name): path.read_bytes()
             for folder in (SOURCE / PACKAGE, top / "python" / "symphony") for path in sorted(folder.glob("*.py"))}
    with tempfile.TemporaryDirectory() as folder:
        files["%s/bin/symphony" % PACKAGE] = any_engine(program, folder)
    files[info + "/METADATA"] = (METADATA % (version, (SOURCE / "README.md").read_text())).encode()
    files[info + "/WHEEL"] = (WHEEL % platform.machine()).encode()
    files[info + "/entry_points.txt"] = ENTRIES.encode()
    files[info + "/licenses/LICENSE"] = (top / "LICENSE").read_bytes()
    files[info + "/RECORD"] = ("".join(record(*file) for file in files.items()) + info + "/RECORD,,\n").encode()
    with tempfile.TemporaryDirectory() as folder:
        wheel = pathlib.Path(folder) / ("%s-%s-py3-none-linux_%s.whl" % (PACKAGE, version, platform.machine()))
        with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                entry = zipfile.ZipInfo(name)  # of 1980: the same program makes the same wheel
                entry.external_attr = (0o100755 if name.endswith("/bin/symphony") else 0o100644) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, content)
        for old in dist.glob(PACKAGE + "-*.whl"):
            old.unlink()
        subprocess.run([sys.executable, "-m", "auditwheel", "repair", "--exclude", "libonnxruntime.so.1", "-w", dist, wheel], check=True)
    print(*dist.glob(PACKAGE + "-*.whl"))


main()
