"""Kinds of refusals by the words of their messages, whichever package or script wrote them.

What a message says is half of a remedy; the other half, {where} to correct it, is the place that
refused: the script's own line, or the settings of a package (`PLACES`). Sources: texts of
tests/fixtures/real; the messages of torch, transformers, DeepSpeed, Megatron-LM, Lightning and JAX.
"""

from __future__ import annotations

from rsctl.known_errors import KnownError
from rsctl.runs.stream.raiser_kinds import BY_CODE


def cause(code: str, words: str, summary: str, remedy: str) -> KnownError:
    """A row of the tables: words of a message in any case, what they mean, and the remedy."""
    return KnownError(code, remedy, pattern=rf"{BY_CODE}[^\n]*?(?i:{words})", summary=summary)


CLEAR_KINDS = (
    cause(
        "binary",
        r"(?:not|n't|never) (?:been )?(?:built|compiled) (?:with|for)\b|\bbuilt without\b"
        r"|requires? (?:the )?(?:cuda|c\+\+|compiled|fused) (?:extension|kernel|op)s?\b"
        r"|(?:not|n't) have (?:cuda|gpu|mpi|rocm)[\w-]{0,20} (?:\w{1,20} )?support\b",
        "a package was built without a part that the script uses",
        "install a build that has it, for the image's torch and CUDA: a vendor's image.base, or a "
        "build in the image; otherwise choose another backend or option in {call}",
    ),
    cause(
        "package-versions",
        r"requires? [^\n]{0,40}(?:[<>=]=|\b\d[\d.]{0,8} or (?:newer|later|higher|above))"
        r"|version (?:mismatch|conflict)|\b(?:newer|older|different|incompatible|unsupported) "
        r"version|versions? [^\n]{0,80}(?:not (?:supported|compatible)|incompatible|mismatch)"
        r"|bytecode version|binary incompatib|unexpected (?:keyword )?arguments?\b"
        r"|expected (?:at (?:least|most) )?\d (?:positional )?arguments?\b",
        "packages, or a package and the code that calls it, are of versions that do not belong "
        "together",
        "install the version of {package} that the message names, or that the calling code was "
        "written for, in image.python; otherwise change {call}",
    ),
    cause(
        "module",
        r"\bis not installed|(?:must|to|should) be installed|not appear to be installed"
        r"|\bpip3? install |please install ",
        "the code uses a package or a program that the image does not have",
        "install it: a Python package in image.python, a program in image.apt; otherwise turn off "
        "the option that uses it, in {call}",
    ),
    cause(
        "setting",
        r"mutually exclusive|\b(?:not|cannot|can't) [^\n]{1,120} at the same time"
        r"|\b(?:only|exactly|either) one of\b|only pass one\b"
        r"|\bnot both\b|\b(?:used|combined|set|specified|passed|given|enabled) (?:together|"
        r"simultaneously)|(?:incompatible|not compatible|conflicts?) with\b(?![^\n]{0,40}\b(?:size"
        r"|shape|layer|model|checkpoint)\b)|not sure how to proceed",
        "two settings exclude each other",
        "keep one of the two that the message names, and remove or change the other, in {where}",
    ),
)
"""The messages that explain more than the package that raises them."""

MESSAGE_KINDS = (
    *CLEAR_KINDS,
    cause(
        "setting",
        r"not (?:yet |currently |been )*(?:supported|implemented)\b|\bunsupported\b"
        r"|(?:not|n't|cannot) (?:yet |currently )?(?:support|handle)\b"
        r"|only (?:\w{1,20} ){0,3}supports?\b|only [^\n]{1,80} (?:is|are) supported"
        r"|\bno [\w ]{1,40} support\b|\bnot available\b",
        "what the script asks for is not supported or not available",
        "use another value, type or combination than the one that the message names, in {where}; "
        "another version of {package} may support it",
    ),
    cause(
        "setting",
        r"\balready (?:exists?|been|in use|registered|initiali[sz]ed|started|defined|set)\b"
        r"|\b(?:more than once|twice)\b",
        "something exists already, or was called a second time",
        "make or call it once, in {where}, or test before whether it exists; remove what an "
        "earlier start left, and let one rank make what ranks share",
    ),
    cause(
        "setting",
        r"(?:not|isn't) (?:a |an |one of |among )?(?:in (?=[\[({])|recogni[sz]ed|known|valid\b)"
        r"|\b(?:(?<!\.)unknown(?! ?:| (?:error|exception|failure|reason))|unrecogni[sz]ed"
        r"|invalid (?:[\w-]{1,20} )?(?:name|type|mode|value|choice|option|device|backend))\b"
        r"|(?:should|must) be (?:one of|either|in (?=[\[({][\"'a-z]))"
        r"|\bchoose (?:from|one)\b|\bnot found\b|(?:could|can)(?: ?not|n't) (?:be found|find)\b",
        "a value or a name is unknown, or what it names does not exist",
        "compare it with the names that the message, the files or the documentation of {package} "
        "list (its spelling, the version that has it), and correct it in {where}",
    ),
    cause(
        "exception",
        r"\btimed[ -]?out\b|\btime-?out (?:after|of|expired|while|waiting)|deadline exceeded"
        r"|took too long",
        "a process waited in vain for another process, a server or a file",
        "look at what {call} waits for: whether it runs, can be reached, or is slow; raise the "
        "limit of the time only if it is slow",
    ),
    cause(
        "setting",
        r"(?:must|should|needs? to|has to|have to|please) (?:also )?(?:be )?(?:set\b|specified"
        r"|specify|provide|contain\b|include\b|pass\b|passed|given?\b|define)"
        r"|(?:is|are) required\b|(?:is|are|was|been) (?:missing|not "
        r"(?:set|specified|provided|given|configured))"
        r"|\brequires? (?:an?|the|you|at least) (?!\w{1,40} (?:of|with|to)\b)"
        r"|\bno [\w ]{1,40} (?:specified|provided|given|set|passed)\b",
        "an option, argument or field that the code needs is not given",
        "give what the message names, in {where}",
    ),
    cause(
        "setting",
        r"\bexceeds?\b|\btoo (?:long|large|big|small|short|few)\b"
        r"|\btoo many\b(?! (?:\w{1,20} )?(?:requests|connections|attempts|retries|failures|errors))"
        r"|\b(?:greater|less|larger|smaller|more|fewer|higher|lower) than\b(?! \S{1,12} (?:times|"
        r"seconds|attempts|retries))"
        r"|\bat (?:least|most)\b(?! one)|out of (?:range|bounds)"
        r"|\bdivisible\b|\bmultiple of\b|(?:must|should) be "
        r"(?:positive|non-?negative|even\b|in (?=[\[(]-?[\d.])|[^\n]{0,40}[<>]=? ?-?\d)",
        "a number is outside the limits that the code accepts",
        "compare the numbers that the message names: change what gives them (an option, the size "
        "of the batch, the model or the data, the number of ranks), in {where}",
    ),
    cause(
        "setting",
        r"\bexpect(?:s|ed)? [^\n]{1,160}\b(?:got|but|received|found|given)\b|does(?: not|n't) match"
        r"|\bmust (?:be )?(?:equal|match|the same)\b|\bmismatch"
        r"|\bnot (?:equal|match|the same|identical)\b|\binconsistent\b| [=!]= ",
        "two values that must agree differ",
        "print both, and correct the one that is wrong (an option, the data, the checkpoint, the "
        "model, the number of ranks), in {where}",
    ),
)
"""The first that fits is shown, after the kinds of mistakes of Python itself."""
