"""demo_pipelines.py - lays the demonstration pipelines out as a model repository: ensembles, and the models under them.

    build/venv/bin/python scripts/demo_pipelines.py --repository pipelines --models models --downloads build/downloads

  wake-words   sound (3.4 s at 16 kHz) to the scores of six wake words: openWakeWord 0.4.0's spectrogram, Google's speech
               embedding, run for each of 34 windows, and six small classifiers behind it. THE CLASSIFIERS ARE LICENSED
               CC BY-NC-SA 4.0 (not for commercial use), the rest Apache-2.0. They are fetched, never kept with the source.
  read-text    a picture to its lines of text: PaddleOCR's three models (scripts/demo_models.py) and small ones made here:
               detection, the lines' boxes, a crop of each, which of them are upside down, recognition, characters.

With --whole also whole-NAME, one a wake word: the same models joined into one, for comparison (bench/pipelines.py).
"""
import argparse
import hashlib
import os
import pathlib
import subprocess
import sys
import zipfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
FLOAT, INT64, UINT8, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.UINT8, TensorProto.STRING

WAKE_WHEEL = "openwakeword-0.4.0-py3-none-any.whl"
WAKE_MODELS = "openwakeword/resources/models/"
# name: its file in the wheel, and how many embeddings it looks at
WAKE_WORDS = {"alexa": ("alexa_v0.1.onnx", 16), "jarvis": ("hey_jarvis_v0.1.onnx", 16),
              "marvin": ("hey_marvin_v0.1.onnx", 16), "mycroft": ("hey_mycroft_v0.1.onnx", 16),
              "timer": ("timer_v0.1.onnx", 34), "weather": ("weather_v0.1.onnx", 22)}
WAKE_WINDOWS, WAKE_FRAMES, WAKE_STEP, WAKE_BINS = 34, 76, 8, 32
WAKE_SAMPLES = 512 + 160 * (WAKE_FRAMES + WAKE_STEP * (WAKE_WINDOWS - 1) - 1)

LINE_HEIGHT, LINE_WIDTH, TURN_WIDTH = 48, 480, 192  # of the crops that recognition and orientation take
LINES_MAX = 64


class Graph:
    """A small ONNX graph, node by node."""

    def __init__(self, name, inputs, outputs, opset=17):
        self.name, self.inputs, self.outputs, self.opset = name, inputs, outputs, opset
        self.nodes, self.weights = [], []

    def constant(self, value, kind=np.int64):
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.array(value, kind), name))
        return name

    def add(self, operator, inputs, output=None, domain="", **attributes):
        output = output or f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [output], domain=domain, **attributes))
        return output

    def model(self):
        def infos(tensors):
            return [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in tensors]
        graph = helper.make_graph(self.nodes, self.name, infos(self.inputs), infos(self.outputs), initializer=self.weights)
        model = helper.make_model(graph, ir_version=8, producer_name="symphony",
                                  opset_imports=[helper.make_opsetid("", self.opset), helper.make_opsetid("ai.onnx.ml", 2)])
        onnx.checker.check_model(model, full_check=True)
        return model


# ---- wake words ----

def wake_windows():
    """The spectrogram, scaled as the embedding wants it, cut into windows."""
    g = Graph("wake-windows", [("spectrogram", FLOAT, ["a", "b", "c", WAKE_BINS])],
              [("windows", FLOAT, [WAKE_WINDOWS, WAKE_FRAMES, WAKE_BINS, 1])], opset=13)
    frames = g.add("Reshape", ["spectrogram", g.constant([-1, WAKE_BINS])])
    scaled = g.add("Add", [g.add("Div", [frames, g.constant(10, np.float32)]), g.constant(2, np.float32)])
    rows = [[WAKE_STEP * window + frame for frame in range(WAKE_FRAMES)] for window in range(WAKE_WINDOWS)]
    g.add("Unsqueeze", [g.add("Gather", [scaled, g.constant(rows)], axis=0), g.constant([3])], "windows")
    return g.model()


def wake_features():
    """The last embeddings, as many as each classifier looks at."""
    lengths = sorted({length for _, length in WAKE_WORDS.values()})
    g = Graph("wake-features", [("embeddings", FLOAT, [WAKE_WINDOWS, 1, 1, 96])],
              [(f"last{length}", FLOAT, [1, length, 96]) for length in lengths], opset=13)
    rows = g.add("Reshape", ["embeddings", g.constant([1, WAKE_WINDOWS, 96])])
    for length in lengths:
        g.add("Slice", [rows, g.constant([WAKE_WINDOWS - length]), g.constant([WAKE_WINDOWS]), g.constant([1])],
              f"last{length}")
    return g.model()


def rename(graph, name_of):
    """Renames all values of a graph, and of those inside its nodes, which may use them."""
    for node in graph.node:
        node.input[:] = [name_of(name) if name else "" for name in node.input]
        node.output[:] = [name_of(name) if name else "" for name in node.output]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                rename(attribute.g, name_of)
    for value in [*graph.input, *graph.output, *graph.value_info, *graph.initializer]:
        value.name = name_of(value.name)


def ends(graph):
    """The names of a graph's only input and output."""
    weights = {weight.name for weight in graph.initializer}
    [given] = [value.name for value in graph.input if value.name not in weights]
    [made] = [value.name for value in graph.output]
    return given, made


def renamed(model, new_input, new_output):
    given, made = ends(model.graph)
    names = {given: new_input, made: new_output}
    rename(model.graph, lambda name: names.get(name, name))
    return model


def wake_models(downloads):
    wheel = zipfile.ZipFile(downloads / WAKE_WHEEL)

    def packaged(name):
        return onnx.load_model_from_string(wheel.read(WAKE_MODELS + name))
    models = {"wake-spectrogram": renamed(packaged("melspectrogram.onnx"), "sound", "spectrogram"),
              "wake-windows": wake_windows(),
              "wake-embedding": renamed(packaged("embedding_model.onnx"), "window", "embedding"),
              "wake-features": wake_features()}
    for word, (name, length) in WAKE_WORDS.items():
        models["wake-" + word] = renamed(packaged(name), f"last{length}", "score")
    return models


def wake_whole(models, word):
    """All that a wake word takes, as one model: the parts' graphs one behind the other."""
    last = f"last{WAKE_WORDS[word][1]}"
    whole = onnx.ModelProto.FromString(models["wake-spectrogram"].SerializeToString())
    names = {"embedding": "embeddings", "window": "windows"}
    for part_name in ("wake-windows", "wake-embedding", "wake-features", "wake-" + word):
        part = onnx.ModelProto.FromString(models[part_name].SerializeToString())
        joints = {"spectrogram", "windows", "window", "embedding", "embeddings", last, "score"}
        rename(part.graph, lambda name: names.get(name, name) if name in joints else f"{part_name}/{name}")
        for number, node in enumerate(part.graph.node):
            node.name = f"{part_name}/{number}"
        whole.graph.node.extend(part.graph.node)
        whole.graph.initializer.extend(part.graph.initializer)
        if part_name == "wake-" + word:
            del whole.graph.output[:]
            whole.graph.output.extend(part.graph.output)
    whole.graph.name, whole.ir_version = "whole-" + word, 8
    del whole.graph.value_info[:], whole.opset_import[:]
    whole.opset_import.extend([helper.make_opsetid("", 13), helper.make_opsetid("ai.onnx.ml", 2)])
    onnx.checker.check_model(whole, full_check=True)
    return whole


# ---- text ----

def text_prepare():
    """A picture [H,W,3] of bytes, height and width padded to multiples of 32, as detection and recognition want it."""
    g = Graph("text-prepare", [("picture", UINT8, ["H", "W", 3])],
              [("x", FLOAT, [1, 3, "h", "w"]), ("plain", FLOAT, [1, 3, "h", "w"])])
    unit = g.add("Div", [g.add("Cast", ["picture"], to=FLOAT), g.constant(255, np.float32)])
    size = g.add("Slice", [g.add("Shape", ["picture"]), g.constant([0]), g.constant([2])])
    more = g.add("Mod", [g.add("Neg", [size]), g.constant([32, 32])])
    pads = g.add("Concat", [g.constant([0, 0, 0]), more, g.constant([0])], axis=0)
    padded = g.add("Pad", [unit, pads], mode="edge")
    for name, mean, scale in (("x", [.485, .456, .406], [.229, .224, .225]), ("plain", [.5] * 3, [.5] * 3)):
        even = g.add("Div", [g.add("Sub", [padded, g.constant(mean, np.float32)]), g.constant(scale, np.float32)])
        g.add("Unsqueeze", [g.add("Transpose", [even], perm=[2, 0, 1]), g.constant([0])], name)
    return g.model()


def text_lines():
    """Detection's map to the lines of text in it, and a crop of each: a line is a run of rows in which there is text,
    from its first column to its last. (Lines that stand beside each other count as one.)"""
    g = Graph("text-lines", [("plain", FLOAT, [1, 3, "h", "w"]), ("map", FLOAT, [1, 1, "h", "w"])],
              [("boxes", FLOAT, ["lines", 4]), ("crops", FLOAT, ["lines", 3, LINE_HEIGHT, LINE_WIDTH]),
               ("looks", FLOAT, ["lines", 3, LINE_HEIGHT, TURN_WIDTH])])
    text = g.add("Cast", [g.add("Greater", ["map", g.constant(0.3, np.float32)])], to=FLOAT)
    text = g.add("Squeeze", [text, g.constant([0, 1])])
    rows = g.add("ReduceMax", [text], axes=[1], keepdims=0)
    step = g.add("Sub", [g.add("Pad", [rows, g.constant([0, 1])]), g.add("Pad", [rows, g.constant([1, 0])])])

    def places(value):  # where a line begins (1), or the row behind its end (-1)
        found = g.add("NonZero", [g.add("Equal", [step, g.constant(value, np.float32)])])
        return g.add("Squeeze", [found, g.constant([0])])
    top, bottom = places(1), places(-1)
    thick = g.add("Greater", [g.add("Sub", [bottom, top]), g.constant(3)])  # thinner ones are specks
    top, bottom = g.add("Compress", [top, thick], axis=0), g.add("Compress", [bottom, thick], axis=0)
    height = g.add("Gather", [g.add("Shape", [text]), g.constant(0)], axis=0)
    width = g.add("Gather", [g.add("Shape", [text]), g.constant(1)], axis=0)
    row = g.add("Range", [g.constant(0), height, g.constant(1)])

    def column(value):
        return g.add("Unsqueeze", [value, g.constant([1])])
    inside = g.add("And", [g.add("GreaterOrEqual", [row, column(top)]), g.add("Less", [row, column(bottom)])])
    columns = g.add("MatMul", [g.add("Cast", [inside], to=FLOAT), text])
    columns = g.add("Cast", [g.add("Greater", [columns, g.constant(0, np.float32)])], to=INT64)
    left = g.add("ArgMax", [columns], axis=1, keepdims=0)
    right = g.add("Add", [g.add("ArgMax", [columns], axis=1, keepdims=0, select_last_index=1), g.constant(1)])
    top, bottom, left, right = (g.add("Cast", [value], to=FLOAT) for value in (top, bottom, left, right))
    # The map is of the letters' cores: the letters reach out by about half of that height.
    margin = g.add("Mul", [g.add("Sub", [bottom, top]), g.constant(0.45, np.float32)])
    top, left = g.add("Sub", [top, margin]), g.add("Sub", [left, margin])
    bottom, right = g.add("Add", [bottom, margin]), g.add("Add", [right, margin])
    g.add("Concat", [column(value) for value in (left, top, right, bottom)], "boxes", axis=1)
    none = g.add("Cast", [g.add("Mul", [left, g.constant(0, np.float32)])], to=INT64)
    tall = g.add("Sub", [bottom, top])
    for name, across in (("crops", LINE_WIDTH), ("looks", TURN_WIDTH)):
        # As wide as the crop's shape wants it, so that letters keep theirs; longer lines are squeezed.
        wide = g.add("Add", [left, g.add("Mul", [tall, g.constant(across / LINE_HEIGHT, np.float32)])])
        if name == "crops":
            wide = g.add("Max", [wide, right])
        box = g.add("Concat", [column(value) for value in (left, top, wide, bottom)], axis=1)
        g.add("RoiAlign", ["plain", box, none], name, output_height=LINE_HEIGHT, output_width=across, sampling_ratio=2,
              mode="avg", coordinate_transformation_mode="half_pixel")
    return g.model()


def text_upright():
    """Turns the crops around that are upside down."""
    g = Graph("text-upright", [("crops", FLOAT, ["lines", 3, LINE_HEIGHT, LINE_WIDTH]), ("turned", FLOAT, ["lines", 2])],
              [("upright", FLOAT, ["lines", 3, LINE_HEIGHT, LINE_WIDTH])])
    chance = g.add("Gather", ["turned", g.constant([1])], axis=1)
    around = g.add("Unsqueeze", [g.add("Greater", [chance, g.constant(0.9, np.float32)]), g.constant([2, 3])])
    far = np.iinfo(np.int64).min
    back = g.add("Slice", ["crops", g.constant([-1, -1]), g.constant([far, far]), g.constant([2, 3]),
                           g.constant([-1, -1])])
    g.add("Where", [around, back, "crops"], "upright")
    return g.model()


def text_characters(characters):
    """Recognition's chances to characters: the likeliest at each place, "" where there is none or it goes on."""
    g = Graph("text-characters", [("chances", FLOAT, ["lines", "places", len(characters) + 2])],
              [("characters", STRING, ["lines", "places"])])
    best = g.add("ArgMax", ["chances"], axis=2, keepdims=0)
    before = g.add("Slice", [g.add("Pad", [best, g.constant([0, 1, 0, 0])]), g.constant([0]), g.constant([-1]),
                             g.constant([1])])
    new = g.add("Where", [g.add("Equal", [best, before]), g.constant(0), best])
    names = [""] + characters + [" "]
    g.add("LabelEncoder", [new], "characters", domain="ai.onnx.ml", keys_int64s=list(range(len(names))),
          values_strings=names, default_string="")
    return g.model()


def text_models(demo):
    def loaded(name):
        return onnx.load(demo / name / "1" / "model.onnx")
    recognition = loaded("text-recognition")
    [characters] = [entry.value for entry in recognition.metadata_props if entry.key == "character"]
    return {"text-prepare": text_prepare(), "text-detection": renamed(loaded("text-detection"), "x", "map"),
            "text-lines": text_lines(), "text-orientation": renamed(loaded("text-orientation"), "look", "turned"),
            "text-upright": text_upright(), "text-recognition": renamed(recognition, "line", "chances"),
            "text-characters": text_characters(characters.split("\n"))}


# ---- the repository ----

TYPES = {FLOAT: "TYPE_FP32", UINT8: "TYPE_UINT8", STRING: "TYPE_STRING"}


def ensemble(inputs, outputs, steps):
    """The text of an ensemble's config.pbtxt. A step is a model, its inputs and its outputs, by the tensors' names."""
    def tensor(kind, name, type_, dims):
        return f'{kind} {{ name: "{name}" data_type: {TYPES[type_]} dims: {dims} }}\n'

    def maps(kind, pairs):
        return "".join(f'    {kind} {{ key: "{key}" value: "{value}" }}\n' for key, value in pairs.items())
    text = 'platform: "ensemble"\nmax_batch_size: 0\n'
    text += "".join(tensor("input", *given) for given in inputs) + "".join(tensor("output", *made) for made in outputs)
    text += "ensemble_scheduling {\n"
    for model, given, made in steps:
        text += f'  step {{\n    model_name: "{model}"\n    model_version: -1\n'
        text += maps("input_map", given) + maps("output_map", made) + "  }\n"
    return text + "}\n"


def wake_ensemble():
    steps = [("wake-spectrogram", {"sound": "SOUND"}, {"spectrogram": "spectrogram"}),
             ("wake-windows", {"spectrogram": "spectrogram"}, {"windows": "windows"}),
             ("wake-embedding", {"window": "windows"}, {"embedding": "embeddings"}),
             ("wake-features", {"embeddings": "embeddings"}, {f"last{n}": f"last{n}" for n in (16, 22, 34)})]
    outputs = []
    for word, (_, length) in WAKE_WORDS.items():
        steps.append(("wake-" + word, {f"last{length}": f"last{length}"}, {"score": word.upper()}))
        outputs.append((word.upper(), FLOAT, [1, 7 if word == "timer" else 1]))
    return ensemble([("SOUND", FLOAT, [1, WAKE_SAMPLES])], outputs, steps), ""


def text_ensemble():
    steps = [("text-prepare", {"picture": "PICTURE"}, {"x": "x", "plain": "plain"}),
             ("text-detection", {"x": "x"}, {"map": "map"}),
             ("text-lines", {"plain": "plain", "map": "map"}, {"boxes": "BOXES", "crops": "crops", "looks": "looks"}),
             ("text-orientation", {"look": "looks"}, {"turned": "turned"}),
             ("text-upright", {"crops": "crops", "turned": "turned"}, {"upright": "upright"}),
             ("text-recognition", {"line": "upright"}, {"chances": "chances"}),
             ("text-characters", {"chances": "chances"}, {"characters": "CHARACTERS"})]
    settings = ("# a request of these two becomes as many items as there are lines\n"
                "steps:\n"
                f"  - {{step: text-orientation, for_each: looks, limit: {LINES_MAX}}}\n"
                f"  - {{step: text-recognition, for_each: upright, limit: {LINES_MAX}}}\n")
    return ensemble([("PICTURE", UINT8, [-1, -1, 3])], [("BOXES", FLOAT, [-1, 4]), ("CHARACTERS", STRING, [-1, -1])],
                    steps), settings


# What a model's file leaves open: the item to measure it with.
SHAPES = {"wake-spectrogram": f"sound: [1, {WAKE_SAMPLES}]", "wake-windows": "spectrogram: [1, 1, 340, 32]",
          "text-prepare": "picture: [96, 320, 3]",
          "text-detection": "x: [3, 96, 320]", "text-lines": "plain: [1, 3, 96, 320], map: [1, 1, 96, 320]",
          "text-orientation": f"look: [3, {LINE_HEIGHT}, {TURN_WIDTH}]",
          "text-recognition": f"line: [3, {LINE_HEIGHT}, {LINE_WIDTH}]", "text-characters": "chances: [60, 6625]"}
SINGLE = ("wake-spectrogram", "wake-windows", "text-prepare", "text-lines")  # their first dimension is no batch


def write(path, data):
    """Writes a file so that it appears under its name only when complete; one that is there already is left alone."""
    if path.exists() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(data)
    os.replace(temporary, path)


def wheel_fetch(downloads):
    if (downloads / WAKE_WHEEL).exists():
        return
    print("    fetching openwakeword (12 MB; the classifiers' licence is CC BY-NC-SA 4.0)", flush=True)
    downloads.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                    "--require-hashes", "--only-binary=:all:", "--dest", downloads, "-r",
                    HERE / "requirements-pipelines.txt"], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repository", type=pathlib.Path, required=True)
    parser.add_argument("--models", type=pathlib.Path, required=True, help="the demonstration models")
    parser.add_argument("--downloads", type=pathlib.Path, required=True, help="where fetched packages are kept")
    parser.add_argument("--whole", action="store_true", help="also one whole model for each wake word")
    arguments = parser.parse_args()
    wheel_fetch(arguments.downloads)
    wake = wake_models(arguments.downloads)
    models = {**wake, **text_models(arguments.models)}
    if arguments.whole:
        for word in WAKE_WORDS:
            models["whole-" + word] = wake_whole(wake, word)
    for name, model in models.items():
        folder = arguments.repository / name
        write(folder / "1" / "model.onnx", model.SerializeToString(deterministic=True))
        if name in SINGLE or name.startswith("whole-"):
            write(folder / "config.pbtxt", b"max_batch_size: 0\n")
        if name in SHAPES or name.startswith("whole-"):
            shapes = SHAPES.get(name, SHAPES["wake-spectrogram"])
            write(folder / "symphony.yaml", f"shapes: {{{shapes}}}\n".encode())
    for name, (config, settings) in {"wake-words": wake_ensemble(), "read-text": text_ensemble()}.items():
        write(arguments.repository / name / "config.pbtxt", config.encode())
        (arguments.repository / name / "1").mkdir(exist_ok=True)
        if settings:
            write(arguments.repository / name / "symphony.yaml", settings.encode())
    print(f"    {arguments.repository}: wake-words, read-text and {len(models)} models", flush=True)


if __name__ == "__main__":
    main()
