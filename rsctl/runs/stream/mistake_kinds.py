"""Kinds of mistakes that Python, NumPy and torch report in code of any purpose, by their own texts.

Sources: the messages of CPython, NumPy, pandas, torch and argparse; texts of tests/fixtures/real.
"""

from __future__ import annotations

from rsctl.runs.stream.service_causes import cause

_PLAIN_TYPES = (
    r"(?:dict|list|tuple|str|int|float|bool|bytes|set|range|function|method|module|generator"
    r"|dict_\w{4,6}|(?:numpy\.)?(?:ndarray|float\d\d|int\d\d|str_)|Series|DataFrame|Image"
    r"|BatchEncoding|BatchFeature)"
)
_SETTINGS_TYPES = r"(?:Namespace|DictConfig|ConfigDict|EasyDict|AttrDict|Munch|Config|Args|Opts)"


MISTAKE_KINDS = (
    cause(
        "configuration",
        rf"^AttributeError: '{_SETTINGS_TYPES}' object has no attribute '(?!__)",
        "the configuration or the arguments have no option of this name",
        "add the option to the parser, the configuration file or run.args, under the name that "
        "the code uses; where the class belongs to a package, install the version that the script "
        "was written for",
    ),
    cause(
        "wrong-type",
        rf"^AttributeError: '{_PLAIN_TYPES}' object has no attribute",
        "a value has another type than the code expects",
        "print its type in {call}: a batch that is a list or dict (move each of its tensors), a "
        "call that returns several values or an object (take [0], .logits or .loss), an array in "
        "place of a tensor (torch.from_numpy, .numpy()), a text that is not parsed; a package may "
        "return another type in this version",
    ),
    cause(
        "wrong-type",
        r"^AttributeError: 'Tensor' object has no attribute",
        "a tensor does not have an attribute that the code uses",
        "print the value's type where it is made: the code may expect an array of NumPy "
        "(.numpy()), a dict, the output of a model (.logits) or a batch of a graph; an attribute "
        "of tensors themselves needs the version of torch that has it",
    ),
    cause(
        "wrong-type",
        r"^(?:Value|Runtime|Type)Error: (?:[Tt]he truth value of an? |Boolean value of Tensor"
        r"|only (?:one element tensors|(?:size-1|length-1|0-dimensional|integer scalar) arrays"
        r"|integer tensors of a single element) can be converted"
        r"|a Tensor with \d{1,15} elements cannot be converted to Scalar(?! \(item at))",
        "the code uses a whole array or tensor as one number or one truth value",
        "reduce it before (.mean(), .item(), .any(), .all()), and test for None with `is`; where "
        "it was one number before, there is now one for each sample, class or GPU",
    ),
    cause(
        "wrong-type",
        r"^IndexError: only integers, slices"
        r"|^TypeError: (?:unsupported operand type|can only concatenate|can't multiply sequence"
        r"|must be (?:real number|str), not|(?:list|tuple|string|byte) indices must be"
        r"|string indices must be|cannot unpack non-iterable|unhashable type"
        r"|cannot use '[\w.]{1,60}' as a (?:dict key|set element) \(|type '\w{1,60}' is not subscr"
        r"|'[\w.]{1,60}' object (?:is not (?:subscriptable|callable|iterable|a mapping|reversible"
        r"|an iterator)|does not support item|cannot be interpreted as an integer)"
        r"|object of type '[\w.]{1,60}' has no len|argument of type '[\w.]{1,60}' is not "
        r"(?:iterable|a container)"
        r"|(?:expected(?! (?:at (?:least|most) )?\d)|descriptor|(?:float|int)\(\) argument)"
        r"[^\n]{0,120}(?:got|not) '?\w)",
        "a value has another type than the operation takes",
        "print its type in {call}: a number that is a text (1e-5 in YAML, an argument without "
        "type=, a column of CSV), a list in place of a dict or the reverse (JSON of another "
        "layout), a name that is used twice for a function and a value, or a newer package that "
        "returns another type",
    ),
    cause(
        "wrong-type",
        r"^(?:AttributeError: cannot assign (?:module|parameters?) before Module\.__init__"
        r"|NotImplementedError: Module \[\w{1,80}\] is missing the required"
        r"|TypeError: cannot assign '[^\n]{1,80}' as (?:parameter|child module|buffer) '"
        r"|TypeError: [\w.]{1,80} is not a Module subclass)",
        "a module of torch is not made or used as torch needs it",
        "call super().__init__() first in the module's __init__ and name its method forward; call "
        "the layers of a ModuleList or ModuleDict one by one; set a layer's weights to an "
        "nn.Parameter, under no_grad() with copy_(), and its layers to modules",
    ),
    cause(
        "nan-loss",
        r"^(?:Value|Overflow)Error: (?:math (?:domain|range) error|cannot convert float (?:NaN"
        r"|infinity) to integer|expected a (?:positive|nonnegative) input)"
        r"|^(?:pandas\.errors\.)?IntCastingNaNError|^ValueError: Cannot convert non-finite values",
        "a computation got a number that is NaN, infinite or outside its domain",
        "print the number and where it comes from: a loss that diverged (a smaller learning rate), "
        "an empty field of the data, a logarithm or division of 0",
    ),
    cause(
        "wrong-type",
        r"^OverflowError: [^\n]{0,80}(?:out of bounds for|too (?:large|big)|can't convert)",
        "a number does not fit the type that holds it",
        "use a larger type (int64, float32), clip the values first, or look for a wrong value in "
        "the data; NumPy 2 refuses numbers that NumPy 1 wrapped",
    ),
    cause(
        "recursion",
        r"^RecursionError: ",
        "a function calls itself without end, or data is nested too deeply",
        "see the frames that repeat in the traceback: a __getattr__ or property that uses itself, "
        "an object that refers to itself while it is copied, printed or saved, or packages of "
        "versions that call each other",
    ),
    cause(
        "terminal",
        r"^EOFError: EOF when reading a line|^(?:termios\.error|OSError): [^\n]{0,20}"
        r"Inappropriate ioctl for device",
        "the script asks a question, and a job has no terminal to answer it",
        "give the answer beforehand: an argument such as --yes or trust_remote_code=True, a key in "
        "run.env (WANDB_API_KEY, HF_TOKEN), a configuration file (`accelerate config`); remove "
        "input(), pdb and breakpoint()",
    ),
)
"""The first that fits the exception's text is shown."""
