"""Causes of failed jobs in scripts: packages that do not fit, checkpoints, settings, files.

Sources: texts of tests/fixtures/real; the messages in the code of torch, triton, transformers and
CPython.
"""

from __future__ import annotations

from rsctl.runs.stream.data_causes import DATA_CAUSES
from rsctl.runs.stream.package_causes import COMPILED_PART
from rsctl.runs.stream.service_causes import cause
from rsctl.runs.stream.tensor_causes import TENSOR_CAUSES
from rsctl.runs.stream.tensorflow_causes import TENSORFLOW_CAUSES

SCRIPT_CAUSES = (
    cause(
        "gpu-binary",
        r"'sm_(\d{2,3}a?)' is not a recognized processor|Unsupported gpu architecture '(\w{1,20})'"
        r"|Value '(sm_\w{1,6})' is not defined for option 'gpu-name'"
        r"|[Uu]nsupported (?:GPU|conversion)[^\n]{0,30}(sm_?\d{2,3})"
        r"|Found ([^\n{]{1,80}) which is too old to be supported by",
        "the compiler of torch or Triton does not know the machine's GPU: {names}",
        "use an image.base with a newer torch and CUDA, or another workers.accelerator",
    ),
    cause(
        "gpu-binary",
        r"([^\n:]{1,80}\brequires? (?:NVIDIA )?(?:Ampere|Hopper|Blackwell|Ada|sm_?\d|(?:CUDA "
        r"|compute"
        r" )capability|[ABHV][1-8]0{1,2}\b)[^\n]{0,80})"
        r"|([^\n:]{0,60}only supported on (?:CUDA )?(?:devices|GPUs|Ampere"
        r"|Hopper)[^\n]{0,80})|(compute capability \d[\d.]{0,3} or higher[^\n]{0,60})"
        r"|(doesn't support bf16/gpu)",
        "the machine's GPU does not have a feature that the program uses: {names}",
        "use another workers.accelerator, a newer CUDA in image.base where the message names one, "
        "or turn the feature (FP8, bf16, FlashAttention) off",
    ),
    cause(
        "batch-size",
        r"/nn/parallel/parallel_apply\.py\", line \d{1,5}, in _worker\n[\s\S]{0,2000}?"
        r"TypeError: \S{0,80}forward\(\) missing \d",
        "a batch has fewer samples than nn.DataParallel has GPUs, so that a replica gets no input",
        "leave out the last, smaller batch (drop_last=True), also in the evaluation, or use "
        "DistributedDataParallel with one rank for each GPU",
    ),
    cause(
        "compile",
        r"FailOnRecompileLimitHit: ()|recompile_limit reached with ()fullgraph=True",
        "torch.compile compiled a function again and again, for inputs of other shapes",
        "give it inputs of equal shapes (pad them, drop_last), use dynamic=True, or raise "
        "torch._dynamo.config.recompile_limit; without fullgraph=True it runs uncompiled instead",
    ),
    cause(
        "compile",
        r"OutOfResources: [^\n]{0,40}?((?:shared memory|registers|threads)[^\n]{0,80}?)"
        r"(?:\. |$|\n)",
        "a kernel of Triton needs more of the GPU's resources than this GPU has: {names}",
        "use smaller sizes of blocks or fewer stages (num_stages) where the package or the script "
        "sets them, a smaller head size or chunk, a newer version of the package that knows this "
        "GPU, or another workers.accelerator",
    ),
    cause(
        "compile",
        r"([^\n]{0,60}PassManager::run failed)"
        r"|SubprocException: (?:[^\n]{0,80}\n{1,2}Name=)?([^\n]{1,100})"
        r"|(LLVM ERROR: [^\n]{1,120})|(map::at)$|(error: '?\w{2,5}\.\w{1,40}' op [^\n]{1,80})"
        r"|[Pp](?:tx|TX)as (?:fatal|error)[^\n:]{0,20}: ([^\n]{1,120})"
        r"|[Cc]annot find a working triton installation|TritonMissing|Triton compilation failed"
        r"|CompilationError: at \d{1,5}:(?:[^\n]{0,300}\n){1,60}? {0,200}\^\n([^\n]{1,160})"
        r"|(?:OutOfResources|PTXASError|CompilationError): ([^\n]{1,160})"
        r"|(Triton Error \[\w{3,4}\]: invalid argument)"
        r"|BackendCompilerFailed: backend='\w{1,30}' raised:?\n([^\n]{1,240})"
        r"|BackendCompilerFailed: backend='(\w{1,30})' raised"
        r"|BackendCompilerFailed: (?!backend=')([^\n]{1,160})"
        r"|_inductor\.exc\.(\w{1,60})|(?:InductorError|LoweringException): "
        r"([^\n]{1,160})"
        r"|torch\._dynamo\.exc\.((?!BackendCompilerFailed|TorchRuntimeError)\w{1,60}"
        r"(?:: [^\n]{1,120})?)",
        "torch.compile or Triton could not compile a part of the model: {names}",
        "run without torch.compile (TORCHDYNAMO_DISABLE=1 in run.env) to see whether the rest "
        "works; install the Triton that belongs to torch, and compilers for C and C++ (image.apt: "
        "[g++])",
    ),
    cause(
        "numpy",
        r"ImportError: {0,2}\n{0,2}A module that was compiled using NumPy"
        r"|was removed in the NumPy 2\.0 release|module compiled against A(?:PI"
        r"|BI) version 0x\w{1,10} but this version of numpy"
        r"|numpy\.core\.multiarray failed to import|RuntimeError: Numpy is not available"
        r"|No module named 'numpy\._core|expected np\.ndarray \(got numpy\.ndarray\)"
        r"|module 'numpy' has no attribute '(?:bool|int|float|object|str|complex|product|long|Inf"
        r"|NaN|unicode_|float_|string_|in1d)8?_?'",
        "a package, or the script, is for another version of NumPy than the installed one",
        "install a newer version of the package, or the older NumPy: numpy<2 in image.python "
        "(numpy<1.24 for names such as np.bool)",
    ),
    cause(
        "package-versions",
        r"ImportError: ([^\n]{0,60}requires (?:the )?[`'\w][^\n]{1,120})"
        r"|ImportError: (\S{1,80}[><=~!]=?[\w.,<>=!]{1,40} is required[^\n]{1,120})"
        r"|(?<!not found )(\b(?:[A-Z]\w{1,30} )?\w{1,60}(?:\[\w{1,20}\])? is required (?:to|for"
        r"|by) [^\n]{1,120})"
        r"|(?:PackageNotFoundError: |No package metadata was found for )[`']?([\w.\[\]-]{1,80})"
        r"|VersionConflict: \(?([^\n]{1,120})|DistributionNotFound: ([^\n]{1,120})"
        r"|(operator torchvision::\w{1,40} does not exist)"
        r"|(provided lr scheduler `\w{1,60}` doesn't follow PyTorch's LRScheduler API)"
        r"|different CUDA (?:major )?versions\. (PyTorch has CUDA Version=[^\n]{1,60}?)\. Please"
        r"|(Loading a (?:streaming )?dataset cached in a LocalFileSystem is not supported)"
        r"|(not find the operator torchvision::\w{1,40})|(No such operator \w{1,40}::\w{1,80})"
        r"|Could not run '(torchvision::\w{1,40})' with arguments from the 'CUDA' backend"
        r"|No module named '((?:torch|transformers|accelerate|diffusers|datasets|pytorch_lightning"
        r"|lightning|deepspeed|apex|triton|peft|torchvision)\.[\w.]{1,80})'"
        r"|No module named '((?:pkg_resources|distutils|imp|torch\._six)\b[\w.]{0,40})'",
        "the versions of packages do not fit each other, or the script: {names}",
        "install versions that belong together in image.python, such as those of the script's own "
        "requirements; a file of the source with the name of a package hides it; pkg_resources "
        "comes with setuptools<81, distutils ended with Python 3.12",
    ),
    cause(
        "extension-missing",
        rf"No module named '({COMPILED_PART}[\w.]{{0,60}})'"
        r"|cannot import name ('(?:_C|_ext|csrc)'(?: from '[\w.]{1,80}')?)"
        r"|FlashAttention2 has been toggled on, but it cannot be used[^\n]{0,80}(?:flash_attn)?()"
        r"|(?:exllama|awq|bitsandbytes)[\w ]{0,30}kernels? (?:is|are) not installed()"
        r"|Error: Not compiled with (GPU|CUDA) support"
        r"|CUDA extension[^\n]{0,40}not (?:installed|available|built)()"
        r"|in (_load_library)\n[^\n]{0,200}\nStopIteration"
        r"|[Cc]ould not find (?:shared object|compiled|library) (?:file )?([^\n]{1,80})"
        r"|Unable to (?:import|load) (?:the )?(?:custom|compiled|CUDA) ([^\n]{1,80})",
        "a package was installed without its compiled part: {names}",
        "install its build for the image's torch and CUDA, or build it there (an image.base with "
        "the CUDA toolkit, pip's --no-build-isolation); a folder of its source beside the script "
        "hides the installed package; amp_C, apex_C and fused_ are of NVIDIA's apex, built with "
        "--cpp_ext and --cuda_ext",
    ),
    cause(
        "extension-missing",
        r"\b(xformers|flash_attn\w{0,20}|apex|triton|deepspeed|bitsandbytes|bnb|wandb|tensorboardX?)"
        r"\.(?:\w{1,40}\.){0,3}?(?P<name>\w{1,60})\b[^\n]{0,120}\n(?:[^\n]{0,120}\n){0,3}?"
        r"[^\n]{0,40}AttributeError: 'NoneType' object has no attribute '(?P=name)'",
        "an optional package could not be imported, and the code set it to None: {names}",
        "install the build of the package that belongs to the image's torch, CUDA and Python; "
        "import it in the image to see its own error",
    ),
    cause(
        "rust-panic",
        r"panicked at '([^\n]{1,200}?)', "
        r"|panicked at [^\n]{1,200}?:\d{1,7}:?(?:\d{1,5}:)?\n([^\n]{1,200})"
        r"|PanicException: ([^\n]{1,200})",
        "a library written in Rust, such as tokenizers, met a state that it does not expect: "
        "{names}",
        "look at the file or text that the script gave it: missing, empty, damaged, too large "
        "(TryFromIntError) or made by another version; install the version that wrote it, or a "
        "newer one; RUST_BACKTRACE=1 in run.env names the function",
    ),
    cause(
        "registry",
        r"KeyError: [\"']([^\n]{1,160}? is not in the [\w:\s]{1,40}registry)"
        r"|(?i:registry)\w{0,20}\[[^\n]{1,160}\n(?:[ ~^]{1,200}\n)?KeyError: ('\w{1,80}')"
        r"|\b(?:Key|Value|Assertion|Runtime)Error: [\"']?([^\n]{1,120}\balready "
        r"registered[^\n\"']{0,40})"
        r"|(No object named '\w{1,80}' found in '[^'\n]{1,40}' registry)"
        r"|(?:Key|Value|Assertion|Runtime)Error: [\"']?((?:\w{1,30} )?'[^'\n]{1,80}' is not "
        r"registered)|RuntimeError: (Unknown model \([^\n)]{1,80}\))",
        "a registry of the framework does not know a name, or knows it already: {names}",
        "import the module that registers it before (custom_imports in mmengine), and install the "
        "versions of the framework's packages that the configuration is for; a name of one letter "
        'comes from a text in place of a list, ("name",); a name that is known already from two '
        "copies of a module, or from versions that both have it",
    ),
    cause(
        "configuration",
        r"\*\*\w{0,30}(?:conf|cfg|dict|json|yaml|data|param)\w{0,20}\)\n(?:[^\n\w]{1,200}\n)?"
        r"[^\n]{0,20}TypeError: [\w.]{0,80}__init__\(\) got an unexpected keyword argument "
        r"('\w{1,80}')"
        r"|TypeError: \w{0,20}(?:Lora|LoRA|Peft|Prompt\w{0,10}|Prefix\w{0,10})Config\.__init__\(\) "
        r"got an unexpected keyword argument ('\w{1,80}')",
        "a configuration has a key that its class does not know: {names}",
        "remove or rename the key in the configuration file (a YAML file, config.json, "
        "adapter_config.json, that of accelerate), or install the version of the package that "
        "wrote or describes it",
    ),
    cause(
        "relative-import",
        r"attempted relative import with no known parent package",
        "a file of a package was started as a script, so its relative imports do not work",
        "start it as a module: command: [python, -m, PACKAGE.MODULE]",
    ),
    cause(
        "relative-import",
        r"attempted relative import beyond top-level package",
        "a relative import has more dots than its file has packages around it",
        "start the module from a higher folder, with the longer name (run.module: "
        "FOLDER.PACKAGE.MODULE), or import the other one by its full name",
    ),
    cause(
        "syntax",
        r'File ("[^"\n]{1,200}", line \d{1,7})\n[^\n]{0,300}\n(?:[^\n]{0,200}\^[^\n]{0,100}\n)?'
        r"(?:SyntaxError|IndentationError|TabError): ",
        "Python cannot parse a file: {names}",
        "correct the line, or use an image.base whose Python is as new as the file's syntax",
    ),
    *DATA_CAUSES,
    cause(
        "extension",
        r"'DeepSpeedCPU(\w{1,20})' object has no attribute 'ds_opt_\w{1,20}'",
        "DeepSpeed's optimizer for the CPU could not be compiled or loaded: {names}",
        "see the first error before it; use an image.base with compilers, ninja and the CUDA "
        "toolkit of torch's version, build it with the image (DS_BUILD_CPU_ADAM=1), or train "
        "without offload_optimizer",
    ),
    cause(
        "checkpoint",
        r"inline_container\.cc[^\n]{0,40}file not found: archive/"
        r"|unexpected EOF, expected \d{1,12} more bytes|failed finding central directory"
        r"|Unable to load weights from pytorch checkpoint file for '[^'\n]{1,200}' at "
        r"'([^'\n]{1,200})'|Unpack failed: incomplete input"
        r"|UnpicklingError: (?!Weights)|EOFError: Ran out of input"
        r"|SafetensorError: (?!Error while serializing)([^\n]{1,100})"
        r"|Invalid magic number; corrupt file|storage has wrong size: expected"
        r"|(?:HeaderTooLarge|MetadataIncompleteBuffer"
        r"|InvalidHeader\w{0,20})",
        "a checkpoint or model is incomplete, or its format differs from its name: {names}",
        "download or write it again; write checkpoints under another name and rename them",
    ),
    cause(
        "pickled-class",
        r"AttributeError: Can't get attribute ('\w{1,80}' on <module [^>\n]{1,120}>)"
        r"|(?:AttributeError: (?=module '__(?:mp_)?main__')|in find_class\n(?:[^\n]{0,200}\n){1,2}"
        r"AttributeError: )(module '[\w.]{1,80}' has no attribute '(?!__)\w{1,80}')",  # 3.14
        "an object was pickled with a class or function that this program does not have there: "
        "{names}",
        "define it in a module that both programs import, under the same name; save state_dict() "
        "instead of whole models; for processes of the start method spawn, define it at the top "
        "level of a file, not in a notebook",
    ),
    cause(
        "checkpoint-missing",
        r"Can't find a valid checkpoint at (\S{1,200})|No valid checkpoint found in output "
        r"directory"
        r" \(?(\S{1,200}?)\)?$|assert (?:metadata is not None|len\(self\.ckpt_list\) > 0)"
        r"|[Uu]nable to find latest file at "
        r"(\S{1,200})"
        r"|zero checkpoints? (?:paths? )?(?:are|is) missing|Client provided checkpoint(?: tag)?"
        r"[^\n]{0,60}(?:does not exist|not found)|No such file or directory: "
        r"'([^'\n]{1,180}(?:\.metadata|/trainer_state\.json|/(?:optimizer|scheduler)\.pt"
        r"|(?:optim|model)_states\.pt))'"
        r"|could not find the metadata file (\S{1,160})(?![\s\S]{0,200}will start from random)"
        r"|checkpoint[^\n]{0,60}not found at "
        r"(\S{1,160})"
        r"|CheckpointException",
        "there is no complete checkpoint where the script resumes: {names}",
        "resume from the newest folder that all ranks have completed; the path must be the same "
        "shared one on all nodes (checkpoints), and the format that the framework loads",
    ),
    cause(
        "trainer",
        r"does not have a padding token|no padding token is defined|not configured with a padding "
        r"token|argument 'padding_value' \(position \d\) must be float, not NoneType",
        "the tokenizer, or the model's configuration, has no padding token",
        "set tokenizer.pad_token = tokenizer.eos_token and model.config.pad_token_id = "
        "tokenizer.pad_token_id, or add a token and resize the model's embeddings",
    ),
    cause(
        "trainer",
        r"[Tt]arget modules (?!\{\w{1,40}\.)([^\n]{1,120}) not found"
        r"|ValueError: Target module (\w{1,60})\("
        r"|[Pp]lease specify `?(target_modules)`? in",
        "PEFT cannot adapt these layers of the model: {names}",
        "give target_modules the names of this model's linear layers (print(model) shows them), or "
        "all-linear; a layer of another kind, or one that is adapted already, must not be among "
        "them",
    ),
    cause(
        "trainer",
        r"[Tt]he model did not return a loss from the inputs, only the following keys: "
        r"([\w,]{1,80})",
        "the model returned no loss, as the batch has no labels that it knows: {names}",
        "give the data set a column `labels` (a copy of input_ids for causal language models), or "
        "let the collator add it; remove_unused_columns=False keeps columns that forward() does "
        "not name; label_names names others",
    ),
    cause(
        "trainer",
        r"(metric_for_best_model[^\n]{0,100}not found in the evaluation metrics[^\n]{0,160}"
        r"|max_steps has to be specified|requires the (?:save|eval\w{0,6}) (?:and (?:save"
        r"|eval\w{0,6})"
        r" )?strategy[^\n]{0,60}"
        r"|chat_template is not set|cannot perform fine-tuning on purely quantized"
        r"|[Ee]valuation requires an eval_dataset|[Yy]ou cannot (?:use|train|set) [^\n]{1,100})",
        "the framework does not accept the script's settings: {names}",
        "correct the setting that the message names, in the script or in run.args: evaluation "
        "needs an eval_dataset, otherwise eval_strategy='no'; the best model needs equal "
        "strategies of saving and evaluation and a metric that is logged; streamed data needs "
        "max_steps, and a quantized model adapters",
    ),
    cause(
        "trainer",
        r"(Tried to step \d{1,12} times\. The specified number of total steps is \d{1,12})",
        "the schedule of the learning rate is shorter than the training: {names}",
        "compute its total_steps from the steps of the optimizer: batches of one rank, divided by "
        "the accumulation of gradients, times the epochs; step it once for each step of the "
        "optimizer, and on a resume make a new one for the steps that remain, or load its state",
    ),
    cause(
        "file-exists",
        r"FileExistsError: (?:\[Errno 17\] File exists: )?([^\n]{1,200})"
        r"|Reused local directory: ([^\n]{1,160}?) vs ",
        "a file, folder or segment of shared memory already exists: {names}",
        "use a new folder for each run, and let one rank create it, or all with exist_ok=True; "
        "what an earlier run has left must be deleted: segments of shared memory are in /dev/shm "
        "(MosaicML's streaming: streaming.base.util.clean_stale_shared_memory())",
    ),
    cause(
        "torch-internal",
        r"([^\n]{0,100}) ?INTERNAL ASSERT FAILED"
        r"|(torch/csrc/[\w/.]{1,80}:\d{1,6}: [^\n]{0,60}Assertion [^\n]{1,80} failed)",
        "PyTorch found its own state to be wrong: {names}",
        "this is a fault of torch, or of code that changes modules or gradients behind its back "
        "(adapters, checkpointing, unused parameters, PYTORCH_CUDA_ALLOC_CONF): use another "
        "version of torch, or leave these out one by one",
    ),
    cause(
        "tracker-failed",
        r"([Yy]ou must call `?wandb\.init\(\)`? before [^\n{]{1,60})"
        r"|(No active run found[^\n]{0,60})|([Ee]xperiment (?:has not been|is not) initialized)",
        "the script uses a tracker's run that has not begun: {names}",
        "call init() before in each rank that logs or reads the run's configuration, or let rank 0 "
        "alone do so; a switch that turns the tracker off must also cover the later calls",
    ),
    cause(
        "tracker-failed",
        r"wandb: ERROR ([^\n]{1,160})|MlflowException: ([^\n]{1,160})"
        r"|mlflow[^\n]{0,60}(API request to [^\n]{1,160}?), retrying up to 0 more"
        r"|\b(?:wandb|mlflow|neptune|comet_ml|clearml|swanlab|aim)\.(?:[a-z_]{1,30}\.){0,4}"
        r"(?:errors?|exceptions?)\.([A-Z]\w{1,60}(?:: [^\n]{1,120})?)"
        r"|wandb\.(Error|CommError|UsageError)",
        "the experiment tracker failed and ended the script: {names}",
        "correct its key, project, run or network; log from one rank, to a new run where "
        "parameters change; or turn it off to see the rest work: WANDB_MODE=offline or disabled, "
        "report_to=none",
    ),
    cause(
        "database",
        r"(QueuePool limit of size [^\n]{1,80})|sqlalchemy\.exc\.(\w{1,40}: [^\n]{1,160})"
        r"|(?:psycopg2?|pymysql|MySQLdb)[\w.]{0,20}\.(\w{1,30}Error: [^\n]{1,160})",
        "a database that the script or its tracker uses failed: {names}",
        "check that its server answers; let only rank 0 write to it, raise its limit of "
        "connections, "
        "and let the script continue without it",
    ),
    cause(
        "helper-process",
        r"[Bb]ackground workers? (?:is|are) no longer alive|BrokenProcessPool|process pool was "
        r"terminated abruptly|[Oo]ne of the subprocesses has abruptly died()"
        r"|TerminatedWorkerError()"
        r"|process (?:\d{1,9} )?terminated with (?:exit code|signal) "
        r"(-?\w{1,20})"
        r"|A worker (?:process )?(?:has )?(?:died|exited) unexpectedly",
        "a helper process of the script died: {names}",
        "see its own error above; without one it was probably killed: compare the node's memory "
        "in `rsctl metrics`, and use fewer processes",
    ),
    cause(
        "file-lock",
        r"[Uu]nable to (?:synchronously )?lock file, errno = 11",
        "another process has opened the HDF5 file, to write it",
        "let one process write the file, under another name until it is complete, and open it in "
        "mode 'r' in the others; HDF5_USE_FILE_LOCKING=FALSE in run.env where all of them read",
    ),
    cause(
        "file-lock",
        r"lmdb\.\w{0,20}Error: ([^\n]{1,200}: (?:No locks available|Function not implemented"
        r"|Operation not (?:supported|permitted)|Invalid argument|Stale file handle"
        r"|Input/output error))",
        "the file system does not give LMDB the lock or the mapped file that it needs: {names}",
        "copy the data to a local disk of the node (inputs, mode: copy); where nothing writes it, "
        "lmdb.open(..., readonly=True, lock=False) needs no lock",
    ),
    cause(
        "file-lock",
        r"No locks available|sqlite3\.OperationalError: (locking protocol|disk I/O error)"
        r"|flock\([^\n]{0,60}(?:failed|not supported)"
        r"|[Uu]nable to (?:synchronously )?lock file|database is locked"
        r"|[Ff]ile lock '([^'\n]{1,160})' could not be acquired"
        r"|fcntl\.(?:flock|lockf)\([\s\S]{0,400}?OSError: \[Errno (?:5|11|37|38|95)\]",
        "a file system, usually one on the network, does not give a lock: {names}",
        "keep caches and locks on a local disk: HF_HOME, HF_DATASETS_CACHE, TRITON_CACHE_DIR and "
        "TORCHINDUCTOR_CACHE_DIR below /tmp; HDF5_USE_FILE_LOCKING=FALSE for HDF5",
    ),
    cause(
        "temporary-folder",
        r"AF_UNIX path (?:too long|length cannot exceed[^\n']{0,40}'([^'\n]{1,300}))"
        r"|path is too long for the Unix domain socket|\"?([^\s\"]{1,200})\"? too long for Unix "
        r"domain socket",
        "the path of the folder for temporary files is too long for a socket in it: {names}",
        "set TMPDIR in run.env to a short path such as /tmp; for Ray RAY_TMPDIR, or "
        "ray.init(_temp_dir=...)",
    ),
    cause(
        "threads",
        r"can't start new thread|pthread_create failed|Thread creation failed"
        r"|fork: (?:retry: )?Resource temporarily unavailable"
        r"|BlockingIOError: \[Errno 11\] Resource temporarily unavailable",
        "the node's limit of processes and threads is reached",
        "set OMP_NUM_THREADS=1 in run.env, use fewer data loader workers, or raise the limit of "
        "the "
        "container (pids) or the user (ulimit -u)",
    ),
    cause(
        "name-resolution",
        r"\[E[^\n]{0,80}network addresses of \((\S{1,100}), \d{1,5}\) cannot be retrieved",
        "a rank cannot resolve the name of the chief: {names}",
        "let rsctl set MASTER_ADDR; a name in run.env must be resolvable on all nodes, otherwise "
        "use an address",
    ),
    cause(
        "display",
        r"([Uu]nable to initialize EGL|[Cc]annot connect to X server|couldn't connect to display"
        r"|no display name and no \$DISPLAY|[Cc]ould not load the Qt platform plugin[^\n]{0,20})"
        r"|([Ff]ailed to (?:initialize|create|load)[^\n]{0,30}\b(?:EGL|GLX|OpenGL)\b)",
        "the program needs a display or a library of graphics, which the job does not have: "
        "{names}",
        "draw without a display: MPLBACKEND=Agg, PYOPENGL_PLATFORM=egl or MUJOCO_GL=egl in "
        "run.env, and NVIDIA_DRIVER_CAPABILITIES=all with an image that has libegl1 and libgl1 "
        "(image.apt)",
    ),
    cause(
        "terminal-size",
        r"(?:stty size|get_terminal_size\()[^\n]{0,80}\n(?:[ ~^]{1,80}\n)?(?:ValueError: not enough"
        r"|OSError: \[Errno 25\])",
        "the script asks for the size of a terminal, and a job has none",
        "use shutil.get_terminal_size(), which has a default, or a fixed width",
    ),
    cause(
        "rank-number",
        r"Invalid rank (\d{1,9}), rank should be in the interval|[Rr]ank (\d{1,9}) (?:is )?out of "
        r"range|world_size \(?\d{1,9}\)? is less than|already (?:a )?rank (\d{1,9}) (?:is )?joined"
        r"|(conflicting local rank info)|assigned (?:the )?same rank"
        r"|[Dd]uplicate (?:global )?rank (\d{1,9})",
        "a rank has a number that another one has, or that the number of ranks does not allow: "
        "{names}",
        "use RANK and WORLD_SIZE of run.launcher: torchrun; the script must not compute them",
    ),
    *TENSOR_CAUSES,
    *TENSORFLOW_CAUSES,
)
"""In the order in which they are shown, the most specific first."""
