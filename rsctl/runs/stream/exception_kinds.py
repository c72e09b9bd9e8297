"""Kinds of mistakes that exceptions of Python show, for texts without a cause of their own.

The text of the exception is part of the finding, so a kind says only what holds for all of its
texts. Sources: texts of tests/fixtures/real; the messages of CPython, hydra and omegaconf.
"""

from __future__ import annotations

from rsctl.runs.stream.message_kinds import CLEAR_KINDS, MESSAGE_KINDS
from rsctl.runs.stream.mistake_kinds import MISTAKE_KINDS
from rsctl.runs.stream.raiser_kinds import COMPILER_KIND, OF_PYTHON, RAISER_KINDS
from rsctl.runs.stream.service_causes import cause

REFUSED = cause(
    "setting",
    rf"^(?!\w{{4,9}}Error: [^\n]{{0,60}}(?:{OF_PYTHON}))(?:(?:Value|NotImplemented)Error: \S"
    r"|AssertionError: (?!assert |[(\[{\d])\S{1,60} \S|[^\n]{1,60}: Assertion error \S)",
    "a package or the script refuses a setting, or its input",
    "change what the message names, in {call}, the configuration or run.args; where it worked "
    "before, a package may have another version now: see the script's requirements",
)
ASSERTED = cause(
    "exception",
    r"^AssertionError: (?:assert |[(\[{\d])",
    "a check in the code failed",
    "print the values that it compares: a setting, a shape or a file that the code does not "
    "expect, or another version of a package",
)
UNKNOWN = cause(
    "exception",
    "",
    "the program raised an exception",
    "correct {call}, or what the message names: print the values, types and shapes before that "
    "line; the log has the lines before it",
)
PACKAGE_REFUSED = cause(
    "setting",
    "",
    "{package} refuses a call, a setting or its input",
    "compare what the message says with {where}; where it worked before, install the version of "
    "{package} that the script was written for, in image.python",
)
PACKAGE_FAILED = cause(
    "exception",
    "",
    "code of {package} failed",
    "look at {call}: an argument, option or batch that {package} does not expect there; if they "
    "are right, use another option, or another version of {package} that fits the other packages",
)
OWN_CHECK = cause(
    "setting",
    "",
    "the script's own code refuses a setting, or its input",
    "see the condition before {place}, and correct the option, file or value that it tests",
)
"""The kinds of exceptions that only the package, or the script's line, explains."""

OWN_KINDS = (
    cause(
        "wrong-type",
        r"^TypeError: (?!metaclass|multiple bases)[^\n]{0,160}(?:\b(?:must be|expected (?!at )"
        r"|types?\b|instance\b|operand|convert\b|is required)|can't be used|does not support"
        r"|, not '|' object\b|format string passed)",
        "a value has another type than the operation takes",
        "print its type in {call}, and compare it with the type that the message names: a text, a "
        "list or a dict in place of a number or the reverse, or an object of another version of a "
        "package",
    ),
    cause(
        "script-failed",
        r"^(?:subprocess\.)?CalledProcessError: ",
        "a command that the script started failed",
        "see the command's own error before the traceback; with capture_output=True in {call}, "
        "print the stderr of the exception",
    ),
)
"""The kinds of exceptions without any other kind that no package raised."""

EXCEPTION_KINDS = (
    COMPILER_KIND,
    cause(
        "signal",
        r"^KeyboardInterrupt",
        "the program was interrupted (SIGINT, as by Ctrl-C), and did not fail itself",
        "find out who sent it: a user, a service that stops its programs so, or the launcher after "
        "the failure of another process, whose log then has the reason",
    ),
    cause(
        "configuration",
        r"^(?:hydra|omegaconf)\.errors\.|^(?:[\w.]{0,60}\.)?(?:Config\w{0,40}(?:Error|Exception)"
        r"|MissingConfigException|StrictDataclass\w{0,20}Error"
        r"|MissingMandatoryValue|Interpolation\w{1,40}|InstantiationException|ValidationError"
        r"|HydraException|OverrideParseException|TOMLDecodeError|ArgumentError)\b|^yaml\.",
        "the program does not accept its configuration",
        "correct the key or value that the message names, in the configuration file or in "
        "run.args (hydra adds a new key with + before it); use the file that belongs to the "
        "program's version",
    ),
    cause(
        "dataset",
        r"^datasets\.(?:(?:exceptions|utils\.info_utils)\.|arrow_dataset\.Dataset|builder\.Invalid)",
        "the library datasets cannot make the data set, or its files are not the expected ones",
        "correct what the message names: a file that is missing or has another format, columns "
        "that differ between files, data to download by hand (data_dir); where sizes or checksums "
        "differ, remove its cache and download it again, or pass verification_mode='no_checks'",
    ),
    cause(
        "network",
        r"^[^\n]{0,200}(?:\[Errno 111\]|[Cc]onnection refused)",
        "the server that the program connects to does not listen at that address and port",
        "see in the traceback which server it is, and start it before the script; give its address "
        "by a name that the nodes can reach (localhost is the node itself), and open its port",
    ),
    cause(
        "file-missing",
        r"^(?:IsADirectoryError|NotADirectoryError): ",
        "a path is a folder where the code needs a file, or a file where it needs a folder",
        "name the file inside the folder (a checkpoint), or the folder around the file (a data "
        "set); a .pt or .pth file must not be unpacked; delete other files and folders, such as "
        ".ipynb_checkpoints, from a data set",
    ),
    cause(
        "setting",
        r"^(?:jinja2\.exceptions\.)?(?:Template(?:Syntax)?Error|UndefinedError): ",
        "the tokenizer's chat template does not accept a conversation of the data set",
        "give each message a role and a content that is a text; let roles take turns, from user to "
        "assistant; put the text of a system message into the first one of the user, where the "
        "template has no system role; or set another tokenizer.chat_template",
    ),
    cause(
        "wrapped-model",
        r"^AttributeError: '\w{0,20}(?:DataParallel|FullyShardedDataParallel"
        r"|DeepSpeed(?:Engine|DataLoader)|OptimizedModule|Accelerated(?:Optimizer|Scheduler)"
        r"|DataLoader(?:Shard|Dispatcher))' object has no attribute",
        "the script uses a part of the model, optimizer or data loader on its wrapper for several "
        "GPUs",
        "use it on the object inside: model.module, model._orig_mod of torch.compile, "
        "accelerator.unwrap_model(model), optimizer.optimizer, or the loader as it was before the "
        "wrapper",
    ),
    cause(
        "wrapped-model",
        r"^AttributeError: '\w{1,60}' object has no attribute '(?:module|_orig_mod)'",
        "the script expects the model inside a wrapper for several GPUs, or of torch.compile, "
        "that this run does not use",
        "use accelerator.unwrap_model(model) or getattr(model, 'module', model), or run it with "
        "as many ranks as it was written for",
    ),
    cause(
        "unpack",
        r"^ValueError: (?:too many|not enough) values to unpack",
        "the code unpacks a value that has another number of parts than it expects",
        "print its length or shape in {call}: a batch without its first dimension, or with one too "
        "many; a line of data with another number of columns; or a function whose package has "
        "another version",
    ),
    cause(
        "none-value",
        r"^(?:Type|Attribute)Error: [^\n]{0,120}\bNoneType\b",
        "a value is None where the code needs an object",
        "see which value of {call} is None: an option that is missing, a file or batch without "
        "content, a function that returned nothing, or something that only rank 0 makes",
    ),
    cause(
        "data-file",
        r"^KeyError: [\"'](?:categories|annotations|annos|data_list|metainfo)[\"']"
        r"|Encountered category_id=\d{1,9} but this id|annotations loaded from annotation file "
        r"should|Annotation must have data_list|annotation file format [^\n]{1,40} not supported"
        r"|Results do not correspond to current coco set",
        "an annotation file has another layout than the code reads",
        "compare its first keys with the layout that the framework's version needs (COCO: images, "
        "annotations, categories; MMEngine: metainfo, data_list), and convert it with the "
        "framework's own converter; an annotation's category_id must be an id of categories",
    ),
    *MISTAKE_KINDS,
    cause(
        "package-versions",
        r"^TypeError: \S{1,120}\(\) got multiple values for",
        "a call gives an argument twice, by its position and by its name",
        "give all arguments by name; in the installed version of a package the parameters may "
        "have another order",
    ),
    cause(
        "package-versions",
        r"^TypeError: (?:\S{1,120}\(\) missing \d|\S{0,120}\bforward\(\) got an unexpected )",
        "a call does not give the arguments that a function requires",
        "compare them with what the message names: forward() gets its arguments from the batch "
        "(columns of the data set, the collate_fn), a class from its configuration; where the "
        "function belongs to a package, install the version that the script was written for",
    ),
    cause(
        "package-versions",
        r"^(?:[\w.]{1,60}\.Module)?AttributeError: '([\w.]{1,80})' object has no attribute",
        "an object is of another class, or its class of another version, than the code expects",
        "see where the {names} comes from: an option may choose another class than {call} "
        "expects; where it is of a package, install the version that {user} was written for, in "
        "image.python",
    ),
    cause(
        "package-versions",
        r"^(?:(?:[\w.]{1,60}\.Module)?AttributeError: (?:partially initialized )?"
        r"[^\n]{1,120} has no attribute|AttributeError: [A-Z][A-Z\d_]{1,60}(?:$|\. Did you mean)"
        r"|TypeError: \S{1,120}\(\) (?:got an unexpected keyword|takes |got multiple)"
        r"|(?:Import|ModuleNotFound)Error: )",
        "code uses a name that does not exist, or calls a function with other arguments than it "
        "takes",
        "where it belongs to a package, install the version of it that {user} was written for, in "
        "image.python; otherwise correct {call}",
    ),
    cause(
        "package-versions",
        r"^AttributeError: (?:can't set attribute|property [^\n]{1,120} has no setter)",
        "code sets an attribute that can only be read",
        "where the object belongs to a package, install the version of it that the script was "
        "written for, in image.python, or set the value as this version does it; otherwise "
        "correct the script",
    ),
    cause(
        "empty-data",
        r"^IndexError: (?:list|tuple|string) (?:assignment )?index out of range",
        "a list is shorter than the code expects",
        "print its length and what fills it: a data set, folder or shard without content (path, "
        "filter), a line of a data file with fewer fields (separator, empty line), or fewer GPUs, "
        "layers or arguments than the code counts on",
    ),
    cause(
        "empty-data",
        r"^(?:IndexError: (?:tuple|pop)|ZeroDivisionError|StopIteration"
        r"|[\w.]{1,60}: [^\n]{0,100}\b(?:non-empty|is empty|empty (?:list|sequence)|num_samples=0"
        r"|assert len\([^\n]{1,60}\) (?:> 0|>= 1|!= 0)|n_samples=0|n_sample <= 0|with 0 sample"
        r"|size 0$|\b(?:0|zero)[ -]length|length (?:of |is |= ?)?(?:0|zero)\b"
        r"|at least one array to|zero-size array"
        r"|does not have an identity|assert len\(indices\) == self\.(?:total_size|num_samples)"
        r"|No columns to parse"
        r"|(?:[Nn]o|[Cc]annot find|[Cc]ould not find|[Ff]ound (?:no|0)) (?:[a-z-]{1,20} ){0,2}"
        r"(?:samples|examples|images|files|data)\b))",
        "a list or a count is empty, or shorter than the code expects",
        "look for a data set, shard, folder or sample without content: a wrong path, a filter, an "
        "image without boxes, fewer samples than ranks x batch size, or fewer GPUs than the script "
        "counts on",
    ),
    cause(
        "batch-size",
        r"^AssertionError: assert [^\n]{1,120} % [^\n]{1,80}== ?0",
        "a size of the training is not a multiple of another",
        "compare both: the batch size with the number of ranks or GPUs, layers or heads with the "
        "parallel sizes, an image's size with the patches",
    ),
    cause(
        "nan-loss",
        r"^AssertionError: assert [^\n]{0,120}\b(?:isnan|isinf|isfinite)\b",
        "a value became NaN or infinite, which the code checks",
        "use a smaller learning rate, more warm-up, clipped gradients or bf16; look at the batch "
        "of that step; torch.autograd.set_detect_anomaly(True) names the first operation",
    ),
    cause(
        "devices",
        r"^AssertionError: assert [^\n]{0,80}\.is_cuda\b",
        "a tensor is on the CPU where the code needs it on the GPU",
        "move the model and each batch to the rank's device before",
    ),
    cause(
        "file-missing",
        r"^AssertionError: assert [^\n]{0,60}\b(?:exists|isfile|isdir|is_file|is_dir)\("
        r"|^FileNotFoundError: \S+$"
        r"|^(?:Value|Runtime|OS|IO|Assertion)Error: [^\n]{0,80}?\b(?i:file|folder|directory|path"
        r"|(?:data(?:set)?|images?) root)\b[^\n]{0,200}?\b(?:not (?:be )?found|not exist"
        r"|doesn't exists?)\b",
        "a file or folder that the code checks does not exist in the job",
        "compare the option that gives its path with the paths of inputs in the job; a path on "
        "your own machine does not exist there",
    ),
    cause(
        "setting",
        r"^(?:Runtime|Value|Assertion|Type|NotImplemented)Error: (?![^\n]{0,160}\binstall\b)"
        r"[^\n]{0,160}(?:\bnot (?:been |yet )?initiali[sz]ed(?! from)|\boutside (?:of )?(?:an?|the"
        r"|its) [^\n]{0,40}\b(?:context|scope|call|function|session|strategy)\b|must be called "
        r"(?:before|after|inside|within)|\b(?:before|after) (?:calling|creating|using|you call))",
        "a call comes before the step that prepares it, or outside the place where it is allowed",
        "move the call in the script's line in the traceback into the function or context that the "
        "message names, or after the package's own initialization",
    ),
    cause(
        "file-missing",
        r"errors_impl\.NotFoundError: ",
        "TensorFlow did not find a file, a checkpoint's key or a registered operation",
        "compare the path with the inputs of the job, or the key with those of the checkpoint; an "
        "operation of another package must be imported before, in a version for this TensorFlow",
    ),
    cause(
        "data-file",
        r"errors_impl\.DataLossError: ",
        "a record or checkpoint that TensorFlow reads is damaged, or has another format",
        "write or download it again; compression_type of TFRecordDataset must be that of the file",
    ),
    cause(
        "gpu-memory",
        r"errors_impl\.ResourceExhaustedError: (?!Received message larger)",
        "TensorFlow found no free memory, on the GPU or the node",
        "use a smaller batch or mixed precision, and let no other process use the GPU",
    ),
    cause(
        "grpc-peer",
        r"errors_impl\.(?:Aborted|Cancelled|DeadlineExceeded)Error: ",
        "an operation of TensorFlow was cancelled, or waited in vain",
        "see the first error before it, also in the logs of the other replicas: another operation, "
        "task or thread of the input failed, or a task cannot be reached (TF_CONFIG)",
    ),
    *CLEAR_KINDS,
    *RAISER_KINDS,
    cause(
        "name-undefined",
        r"^(?:UnboundLocal|Name)Error: (?:cannot access )?(?:free|local) variable '([^'\n]{1,80})'"
        r"|local variable '[^'\n]{1,80}' (?:referenced before assignment|where it is not)",
        "the code uses a variable that it has not set, as the branch or loop that sets it did not "
        "run",
        "look at the option or the data that decides it: an argument that was not given, a list "
        "without elements, or a branch that only one rank or one version takes",
    ),
    cause(
        "name-undefined",
        r"^NameError: (?:global )?name '([^'\n]{1,80})'",
        "the code uses a name that is not defined",
        "import or define it; an import inside try or if may have failed: install that package in "
        "image.python, or a version that fits the script",
    ),
    cause(
        "setting",
        r"^ValueError: (?:could not convert string to float|invalid literal for int\(\))"
        r"|^TypeError: '[<>]=?' not supported between[^\n]{1,60}'str'",
        "the code needs a number and gets a text",
        "write 1.0e-5 in YAML, where 1e-5 is a text, and give options a type (argparse: "
        "type=float); in data look for headings, empty fields, another separator, and columns of "
        "dates or names",
    ),
    cause(
        "tensor-shape",
        r"^AssertionError: assert [^\n]{1,160}(?:\.(?:shape|size\(\)|ndim)\b|\.size\(|\.dim\(\))",
        "a tensor or array has another shape than the code expects",
        "print the shapes before that line: channels, classes, a last batch that is smaller, or a "
        "dimension that a wrapper for several GPUs or another version of a package adds",
    ),
    cause(
        "setting",
        r"^AssertionError: assert [^\n]{0,80}\b(?:args|cfg|config|conf|opts?|hparams|params|FLAGS"
        r"|settings|options)\b\)?[.\[(]",
        "an option has no value, or one that the code does not accept",
        "set the option that the condition names to such a value, in run.args or the "
        "configuration file",
    ),
    cause(
        "none-value",
        r"^AssertionError: assert [^\n]{1,120} is not None\b",
        "a value is None where the code needs an object",
        "find what should have set it: an option that is missing, an input that the caller did "
        "not give, a file that was not found",
    ),
    cause(
        "tensor-shape",
        r"^AssertionError: assert [^\n]{0,80}\blen\([^\n]{1,80}[=!<>]=? ?[^\n]{0,80}\blen\(",
        "lists that belong together have different lengths",
        "print both lengths: one was filtered, cut, extended or emptied without the other, or they "
        "come from files of different versions",
    ),
    cause(
        "wrong-type",
        r"^AssertionError: assert isinstance\(",
        "a value has another type than the code expects",
        "print its type there, and convert it before: a text of run.args or YAML, a list in place "
        "of a tensor, an object of another version of a package",
    ),
    ASSERTED,
    cause(
        "key-missing",
        r"^KeyError: (?:-?\d{1,18}|'-?\d{1,18}')$",
        "a number is not among the keys of a dictionary or the labels of a table",
        "take positions in a table with .iloc, or call reset_index(drop=True) after a filter or "
        "split; a mapping of classes or ids needs each number of the data: compare it with the "
        "labels and the number of classes",
    ),
    cause(
        "key-missing",
        r"^KeyError(?![^\n]{0,160}already)",
        "a name does not exist in a dictionary: a configuration, a registry, a sample or a "
        "checkpoint",
        "look at the keys in {call}: compare the name with the keys of the configuration, columns "
        "of the data, modules that the script has to import before, parameters of the checkpoint",
    ),
    cause(
        "tensor-shape",
        r"^(?:[\w.]{1,80}\.)?(?!Key)\w{1,40}(?:Error|Exception): [^\n]{0,200}(?:\bndims?\b"
        r"|number of dimensions\b|(?:[Ww]rong|[Uu]nexpected|[Ii]ncorrect|[Ii]nconsistent) "
        r"(?:shape|dimension)|\bshapes? (?:mismatch|do(?:es)? not match|must match))",
        "a tensor or array has another shape than the code accepts",
        "print the shapes before the script's line in the traceback, and compare them with the "
        "configuration and with what the function takes: a batch dimension too many or missing, "
        "channels, one series or several",
    ),
    *MESSAGE_KINDS,
    REFUSED,
    cause(
        "setting",
        r"^[\w.]{0,80}\.(?:InvalidArgument|FailedPrecondition|OutOfRange|Unimplemented)Error: ",
        "an operation of TensorFlow refuses its input, or the device or state in which it runs",
        "compare the shapes, types, labels and devices that the message names with what the "
        "operation takes; create the distribution strategy before any tensor, variable or data "
        "set, and let TF_CONFIG name the devices' job",
    ),
    UNKNOWN,
)
"""The first that fits the exception's text is shown; the last fits all."""

SAMPLE_KIND = cause(
    "data-sample",
    "",
    "the data set's own code failed on a sample, or on joining samples to a batch",
    "print the index and the sample there: a field, label or file that the message names, a "
    "damaged or missing file, a table whose index does not count from 0 (iloc), a field that is "
    "not a tensor; correct the sample or leave it out",
)
"""The kind of an exception below a data loader's call, in place of those of `PLAIN_KINDS`."""

IMPORT_KIND = cause(
    "package-versions",
    "",
    "a module failed while the script imported it",
    "install the versions of its package, and of those that it imports, that belong together in "
    "image.python, such as those of the script's own requirements; leave the import out where the "
    "script does not need it",
)
"""The kind of an exception inside a package during an import, likewise."""

PLAIN_KINDS = frozenset({"exception", "key-missing", "setting"})
"""The kinds that hold for code of any purpose."""
