"""Causes of failed jobs in their data: shards, formats, damaged files, folders without samples.

Sources: texts of tests/fixtures/real; the messages in the code of webdataset, streaming, datasets,
pyarrow, Pillow, torchvision, ultralytics and TensorFlow.
"""

from __future__ import annotations

from rsctl.runs.stream.service_causes import cause

_RAISED = r"(?:Error|Exception): (?:[^\n]{0,200}\n)?"

DATA_CAUSES = (
    cause(
        "nodes-shards",
        r"you need to add an explicit nodesplitter|need at least as many (?:shards|files)"
        r"|fewer shards than workers|[Nn]o samples found in (?:the )?dataset"
        r"|number of shards \(?\d{0,9}\)?[^\n]{0,40}(?:less|smaller|fewer)[^\n]{0,40}"
        r"(?:workers|ranks|processes)",
        "the shards of a data set cannot be divided among the ranks and their workers",
        "give webdataset nodesplitter=wds.split_by_node, and make at least one shard for each "
        "worker of each rank",
    ),
    cause(
        "data-pipe",
        r"\{'shell':\s{0,4}True[^\n]{0,60}\}\): exit (\d{1,3}) \(\w{1,10}\)"
        r"|(?:gopen|Pipe)[^\n]{0,200}: exit (-?\d{1,3})\b"
        r"|download failed: (?:s3|gs)://?(\S{1,160}) to - ",
        "a command that webdataset reads a shard from failed: {names}",
        "run the command in the image to see its own error: a program, a permission or a name; "
        "let the pipeline skip or retry with handler=wds.warn_and_continue",
    ),
    cause(
        "data-pipe",
        r"(\S{1,160}): no gopen handler defined",
        "webdataset cannot open this kind of location by itself: {names}",
        "give it a command that writes the shard: `pipe:aws s3 cp URL -`, `pipe:gcloud storage cat "
        "URL`, with the program in the image (image.python: awscli); or read a local copy, as "
        "inputs of the job are",
    ),
    cause(
        "data-types",
        r"Arrow(?:Invalid|TypeError|NotImplementedError|CapacityError)(?:'>)?: "
        r"(?!Not an? |Could not open|JSON parse error: (?!Column|A column|straddling)"
        r"|[^\n]{0,40}[Mm]agic"
        r"|[^\n]{0,60}(?:footer|[Tt]runcated|corrupt|buffers?\b))"
        r"([^\n]{1,200})|(?:datasets\.\w{1,20}\.)CastError(?:'>)?: ([^\n]{1,160})",
        "pyarrow cannot represent the data: {names}",
        "correct what the message names: rows or files with other types or columns than declared, "
        "a block size, or more than 2 GiB of text in one batch (writer_batch_size, more shards)",
    ),
    cause(
        "data-file",
        r"Relative sample index \d{1,12} is not present in the (\S{1,120}) file",
        "a shard of MosaicML's streaming is shorter than its index says: {names}",
        "delete the local copy of the data set, which an interrupted download has left, and load "
        "it again; otherwise write the shard and index.json again",
    ),
    cause(
        "data-file",
        r"ArrowInvalid(?:'>)?: ((?:Not an?|Could not open) [^\n]{1,160}"
        r"|[^\n]{0,40}[Mm]agic[^\n]{0,120}"
        r"|JSON parse error: (?!Column|A column|straddling)[^\n]{1,120}"
        r"|[^\n]{0,60}(?:footer|[Tt]runcated|corrupt|buffers?\b)[^\n]{0,100})"
        r"|cannot identify image file ([^\n]{1,160})|image file is truncated()"
        r"|Truncated File Read()"
        r"|tarfile\.ReadError: ([^\n]{1,80})|zlib\.error: ([^\n]{1,80})|BadZipFile: ([^\n]{1,80})"
        r"|Compressed file ended before()|gzip\.BadGzipFile: ([^\n]{1,80})"
        r"|Parquet magic bytes not found()|(No valid stream found|moov atom not found"
        r"|cannot find video stream with wanted index)"
        r"|lmdb\.\w{0,20}Corrupted\w{0,10}()|Invalid bit width"
        r"|UnicodeDecodeError(?:'>)?: (?!'ascii')([^\n]{1,120})|IncompleteReadError"
        r"|(Consistency check failed: [^\n]{1,80})"
        r"|(?:Unable to|Can't) (?:synchronously )?(?:open (?:file|object)|read data) "
        r"\((?!unable to open file: name = [^\n]{1,300}errno = 2,)([^\n]{1,100})"
        r"|(Expected image \(JPEG[^\n]{0,80}|Unknown image file format[^\n]{0,60})"
        r"|((?:corrupted|truncated) record at \d{1,15})|(Invalid (?:JPEG|PNG) data[^\n]{0,60})"
        r"|ParserError(?:'>)?: (Error tokenizing data[^\n]{0,100})",
        "a data file is damaged, incomplete, or of another format than its name: {names}",
        "find the file by the name in the traceback, and write or download it again; `mode: copy` "
        "avoids files that are read while they are written",
    ),
    cause(
        "file-scheme",
        r"File system scheme '(\[?\w{1,12}\]?)' not implemented"
        r"|Protocol not known: (\w{1,12})|Please install (\w{1,20}fs) to access"
        r"|Install (\w{1,20}fs) to access",
        "a library of the image cannot read such addresses: {names}",
        "add what reads them to image.python (tensorflow-io, s3fs, gcsfs), or read the files from "
        "inputs, which rsctl mounts or copies",
    ),
    cause(
        "data-missing",
        rf"{_RAISED}[^\n]{{0,60}}[Dd]ataset (?:'[^'\n]{{1,200}}' )?(?:images )?not found"
        r"(?: or corrupted)?[^\n,]{0,20}(?:, missing paths \[?'?([^'\]\n]{1,160}))?"
        rf"|{_RAISED}[^\n]{{0,60}}(?:Found (?:0|no valid)|Couldn't find any class) (?:files?|images"
        r"|folder)[^\n]{0,30} (?:in|of)[^\n:]{0,30}:? ?(/?[\w./-]{0,160})"
        rf"|{_RAISED}[^\n]{{0,60}}[Nn]o (?:labels|images) found in ([^\n]{{1,160}})",
        "the data set is not where the script looks for it, or has another layout: {names}",
        "compare that path with the folders of inputs in the job; paths in a data set's own file "
        "(such as YAML) count from its folder or from the working directory; correct them",
    ),
    cause(
        "data-missing",
        r"(?:get_loc|_get_item_cache|raise KeyError\(key\) from err)[\s\S]{0,400}?\nKeyError: "
        r"('[^'\n]{1,80}')|KeyError: \W(\[[^\n]{1,80}\] not (?:in index|found in axis))"
        r"|KeyError: \W(None of \[[^\n]{1,80}\] are in the \[(?:columns|index)\])"
        r"|(Usecols do not match columns[^\n]{1,160})|(Missing column provided to [^\n]{1,100})"
        r"|Error: \W{0,2}((?:Original c|C)olumn(?:s| name)? [^\n{]{1,100} not in the dataset\b"
        r"[^\n\"]{0,160})"
        r"|(--\w{1,30}_column' value '[^'\n]{1,60}' needs to be one of: [^\n]{1,120})",
        "a table or data set has no column or row of this name: {names}",
        "compare it with the file's first line: its names, separator (sep=) and encoding, or "
        "another version of the data set",
    ),
    cause(
        "data-file",
        r"cannot find a suitable reader for file: (\S{1,200})"
        r"|Could not find a (?:backend|format) to (?:open|read) [`'](\S{1,200}?)[`']"
        r"|(No ImageIO is registered[^\n]{0,40})|Format not recogni[sz]ed()",
        "no package of the image can read a file of this format: {names}",
        "add one to image.python: nibabel for .nii, itk or SimpleITK for .mha and .nrrd, pydicom "
        "for DICOM, imageio[ffmpeg] or av for video, soundfile for audio; check that the file is "
        "complete",
    ),
    cause(
        "data-missing",
        r"cv2\.error: [^\n]{1,300}Assertion failed\) !(?:_?src|ssize|_?img|image|buf)\.empty\(\)",
        "OpenCV got an empty image: its file is missing, is not an image, or is damaged",
        "cv2.imread() returns None for it and raises nothing: check its result and print the path",
    ),
    cause(
        "empty-data",
        r"SchemaInferenceError|[Pp]lease pass `features` or at least one example",
        "a data set has no examples",
        "its files are empty, hold none of the expected records, or match no name of data_files: "
        "print the paths in the job, and compare them with inputs; delete the folder of that data "
        "set in HF_DATASETS_CACHE if its files have changed",
    ),
    cause(
        "data-timeout",
        r"(Index file \S{1,200} took too long to download|Waiting for local rank 0), bailing out",
        "the first rank of a node did not prepare streaming's data set in its time: {names}",
        "see whether rank 0 of that node failed or still downloads; let all ranks of a node use "
        "one folder (local=), or raise download_timeout",
    ),
    cause(
        "data-full",
        r"MDB_MAP_FULL",
        "an LMDB database has reached the size that it was opened with",
        "open it with a larger map_size: it takes no space on the disk before it is written",
    ),
    cause(
        "data-missing",
        r"IndexError: Invalid key: (\S{1,40}) is out of bounds for size 0",
        "the data set has no rows left for the trainer",
        "transformers' Trainer removes the columns that the model's forward does not name, and "
        "with the last one all rows: remove_unused_columns=False; otherwise a filter or a split "
        "left nothing",
    ),
    cause(
        "data-missing",
        r"\bepoch_iterator\b[\s\S]{0,3000}?, in fetch\n[^\n]{0,20}return "
        r"self\.collate_fn\(data\)\n[\s\S]{0,600}?\nKeyError: '(\w{1,60})'",
        "the collator uses a column that the trainer's samples do not have: {names}",
        "set remove_unused_columns=False, as transformers' Trainer removes the columns that the "
        "model's forward does not name; otherwise let the map of the data set add the column",
    ),
)
"""In the order in which they are shown."""
