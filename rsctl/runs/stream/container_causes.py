"""Causes of failed jobs whose container did not start: docker, podman, enroot and pyxis, apptainer.

Sources: texts of tests/fixtures/real; messages in the code of pyxis, enroot and apptainer.
"""

from __future__ import annotations

from rsctl.runs.stream.service_causes import cause

CONTAINER_CAUSES = (
    cause(
        "container-engine",
        r"(?i:cannot connect to the docker daemon|is the docker daemon running"
        r"|failed to connect to the docker api)"
        r"|permission denied while trying to connect to the [Dd]ocker|unable to connect to Podman"
        r"|Cannot connect to Podman|containerd\.sock: connect: (?:no such file|connection refused"
        r"|permission denied)",
        "the container engine does not answer, or the job's user may not use it",
        "start it on the node, and check that `docker info` or `podman info` works for the user",
    ),
    cause(
        "container-engine",
        r"(enroot-\w{1,30}|mksquashfs|unsquashfs|squashfuse|fuse-overlayfs|conmon|slirp4netns|pasta"
        r"|fuse2fs|gocryptfs)\W{1,5}(?:command not found|executable file not found|not found in)"
        r"|(?:exec|find runc path): \W{0,5}(runc|crun|conmon)\W{1,9}executable file not found"
        r"|\[ERROR\] Command not found: (?!nvidia)(\S{1,60})",
        "a program that the container engine needs is missing on the node: {names}",
        "install it there, or the whole package of the engine; exclude the node until then",
    ),
    cause(
        "container-cgroup",
        r"(applying cgroup configuration[^\n]{0,160})|(mountpoint for \w{1,12} not found)"
        r"|([^\n:]{0,60}cgroups?\b[^\n]{0,80}(?:not found|[Nn]o such file|not permitted|permission "
        r"denied|read-only|isn't mounted|not mounted|busy|cannot|failed)[^\n]{0,60})"
        r"|(unable to (?:start unit|apply cgroup)[^\n]{0,120})",
        "the container engine cannot use the node's cgroups: {names}",
        "this is the node's set-up: exclude it, and ask its administrator to mount cgroups or to "
        "restart the engine; cgroup v2 needs docker 20.10 and nvidia-container-toolkit 1.8 or "
        "newer; podman of a user needs systemd's delegation",
    ),
    cause(
        "container-limits",
        r"((?i:range of cpus is from [\d.]{1,9} to [\d.]{1,9}))"
        r"|((?i:minimum memory limit allowed is \w{1,9}))",
        "the container engine does not accept the limits of the container: {names}",
        "change the container's number of cores or its memory, on target compose "
        "targets.compose.cpus and targets.compose.memory",
    ),
    cause(
        "container-network",
        r"(failed to create endpoint [^\n]{1,160})|(failed to set up container "
        r"networking[^\n]{0,120}"
        r")|(could not find an available, non-overlapping IPv4[^\n]{0,60})"
        r"|(all predefined address pools have been fully subnetted)|(network \S{1,80} not "
        r"found)|(netavark: [^\n]{1,120})|(failed programming external connectivity[^\n]{0,160})",
        "the container engine could not set up the container's network: {names}",
        "restart the engine, remove unused networks (`docker network prune`), or use the host's "
        "network",
    ),
    cause(
        "gpu-container",
        r"(?:unresolvable|inject|resolve|stat|setting up) CDI (?:host )?devices?"
        r"|nvidia-container-runtime[^\n]{0,20}: find runc path"
        r"|create NVIDIA Container Runtime: error"
        r"|stat /dev/nvidia\w{0,20}: no such file|adding custom device \"/dev/nvidia"
        r"|nvidia-container-(?:runtime|toolkit|cli)[^\n]{0,80}(?:not found|no such file|failed)",
        "the container engine cannot give a container the machine's GPUs",
        "install NVIDIA's driver and the nvidia-container-toolkit on the machine, configure the "
        "engine (`nvidia-ctk runtime configure`, for podman `nvidia-ctk cdi generate`), and "
        "restart it; after a new driver, generate CDI's file again; exclude a node whose GPUs are "
        "missing",
    ),
    cause(
        "user-namespaces",
        r"new[ug]idmap[^\n]{0,80}(?:not permitted|failed|executable file not found)"
        r"|insufficient UIDs or GIDs|max_user_namespaces"
        r"|(?:ERROR|FATAL|[Cc]annot|no sub[ug]id ranges)[^\n]{0,80}/etc/sub[ug]id"
        r"|(?i:user namespaces? (?:required|needed|(?:is|are) (?:not|disabled))"
        r"|failed to create (?:user|mount) namespace"
        r"|(?:requires?|needs?|without|disabled)[^\n]{0,40} unprivileged user namespaces?"
        r"|unshare[^\n]{0,40}operation not permitted|cannot (?:clone|set up namespace)"
        r"|write(?:-_)?uid_map|setgroups[^\n]{0,40}not permitted"
        r"|(?:CLONE_NEWUSER|setns)[^\n]{0,40}not permitted)"
        r"|NEWUSER namespace|[Ff]ailed to set securebits"
        r"|--fakeroot (?:requires|used)|requires (?:root privileges|setuid)|starter-suid",
        "the node does not let the job's user create containers (user namespaces)",
        "let the node's administrator permit them: sysctl user.max_user_namespaces, "
        "kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0, and "
        "a range for the user in /etc/subuid and /etc/subgid; or exclude the node",
    ),
    cause(
        "container-image",
        r"could not open image (\S{1,200}?):|Image file (\S{1,200}) does not exist"
        r"|\[ERROR\] No such file or directory: (\S{1,200}\.sq\w{2,5})"
        r"|short-name (\"?[\w./:-]{1,120}\"?) did not resolve|(invalid reference format)"
        r"|Error response from daemon: [^\n]{0,300}?\b((?:name|tag) invalid: [^\n]{1,160})"
        r"|Invalid image (?:reference|format): (\S{1,160})|repository name must be (lowercase)"
        r"|initializing source (\S{1,200}): (?![^\n]{0,200}(?:lookup|dial|timeout))"
        r"|While making image from oci registry: ([^\n]{1,200})"
        r"|\[ERROR\] (URL \S{1,160} returned error code: [45]\d\d[^\n]{0,40})"
        r"|(?:a container with name|no container with name or ID) (\"?[^\s\"]{1,120})\"? "
        r"(?:does not exist|found)|[Uu]nable to handle (\S{1,160} uri: [^\n]{1,120})"
        r"|conveyor failed to get: ([^\n]{1,160})|[Uu]nable to build from (\S{1,120})"
        r"|not a valid (?:SIF|squashfs) image|unable to open file (\S{1,160}\.sif)",
        "the image of the container does not exist, or its name is not valid: {names}",
        "correct the image: a file needs its path (and comes before the command), a registry's "
        "image its whole name with the registry and a tag; for a private one log in; "
        "for a file pull or build it again on a file system that all nodes share",
    ),
    cause(
        "container-image",
        r"(Something went wrong trying to read the squashfs[^\n]{0,40})"
        r"|(failed to mount squashfs filesystem: invalid argument)"
        r"|([Ss]quashfs[^\n]{0,60}(?:unable to read|corrupt|bad magic|superblock)[^\n]{0,60})"
        r"|(Can't find a (?:valid )?SQUASHFS superblock[^\n]{0,60})"
        r"|Error response from daemon: [^\n]{0,300}?\b((?:digest|size|manifest) "
        r"(?:invalid|unverified): [^\n]{1,160})"
        r"|(while loading SIF[^\n]{0,100}|invalid SIF[^\n]{0,60})",
        "the file of the container's image is damaged, incomplete or not an image: {names}",
        "pull or copy it again, and compare its size and checksum with the original's; a download "
        "that was interrupted leaves such a file",
    ),
    cause(
        "container-mount",
        r"destination (\S{1,160}) doesn't exist in container",
        "the container's image has no folder for a mount: {names}",
        "create it in the image (`mkdir -p`), or mount below a folder that the image has, such as "
        "/mnt; apptainer makes it where its configuration allows overlay or underlay",
    ),
    cause(
        "container-mount",
        r"bind source path does not exist: (\S{1,200})|source path does not exist: (\S{1,200})"
        r"|Error: statfs (\S{1,200}): no such file|error mounting \"([^\"\n]{1,200})\" to rootfs"
        r"|mount (?:source )?\"?(/[\w./-]{1,200})\"?(?:->|:)[^\n]{0,200}(?:no such file|doesn't "
        r"exist|permission denied)|enroot-mount: failed to mount: (\S{1,200})"
        r"|(invalid (?:mount config|volume specification|format)[^\n]{0,160})"
        r"|container creation failed: (?:open|stat|lstat) (/\S{1,160}): no such file"
        r"|[Uu]nable to mount (\S{1,160}) (?:on|to|in)|mount source (\S{1,160}) doesn't exist"
        r"|mkdir (/[\w./-]{1,160}): (?:read-only file system|permission denied)",
        "a folder or file that the container mounts does not exist on the node: {names}",
        "correct the path, or create it on all nodes before; the daemon of a container engine "
        "needs permission to read it too, which a home on NFS may refuse",
    ),
    cause(
        "container-storage",
        r"([^\n]{0,60}(?:no loop devices? available|failed to mount squashfs|bad superblock"
        r"|squashfuse[^\n]{0,20}(?:not found|failed)|while mounting image)[^\n]{0,100})"
        r"|containers/storage/\S{1,200}: ([Pp]ermission denied|[^\n]{1,40}not supported)"
        r"|('?overlay'? is not supported over [^\n]{1,60}|kernel does not support overlay)"
        r"|(failed to (?:register layer|mount overlay|create opaque ovlfs|set capabilities)"
        r"[^\n]{0,120})|(mksquashfs[^\n]{0,40}(?:failed|FATAL|error)[^\n]{0,60})"
        r"|(Not enough space left in [^\n]{1,100})|layer does not (exist)"
        r"|((?:root filesystem extraction|unpackSIF|packer)[^\n]{0,20} failed[^\n]{0,100})"
        r"|(packer failed to pack)",
        "the node cannot unpack or mount the container's image: {names}",
        "let the engine keep its images on a local disk with free space that the user may write "
        "(podman: graphroot; ENROOT_DATA_PATH, APPTAINER_TMPDIR and APPTAINER_CACHEDIR), not on "
        "NFS; for loop devices or squashfs ask the node's administrator, or unpack the image to a "
        "folder (`apptainer build --sandbox`)",
    ),
    cause(
        "container-option",
        r"(?:unknown (?:shorthand )?flag|flag provided but not defined|unknown runtime)"
        r"[^\n:]{0,30}: ([^\n]{1,80})|(?:srun|sbatch"
        r"|salloc): unrecognized option '(--container[\w-]{1,30})"
        r"|SPANK plugin \"pyxis\" option \"([\w-]{1,30})\" not found"
        r"|pyxis: (--container-\S{1,30} (?:specified|argument)[^\n]{0,60})",
        "the container engine does not know an option: {names}",
        "correct it, or use a newer version of the engine; srun's options of containers need pyxis "
        "on the cluster",
    ),
    cause(
        "gpu-container",
        r"Command not found: nvidia-container-cli|Auto-detected mode as .legacy."
        r"[\s\S]{0,200}?nvidia-container-cli",
        "the node cannot give a container its GPUs: nvidia-container-cli is missing or failed",
        "exclude the node, and ask its administrators to install the nvidia-container-toolkit; "
        "without GPUs, set NVIDIA_VISIBLE_DEVICES=void in run.env",
    ),
    cause(
        "container-command",
        r"enroot-switchroot: failed to execute: ([^\n:]{1,120})",
        "the container does not have the program that starts it: {names}",
        "use an image that contains bash and the program, or let its entrypoint out with srun's "
        "option no-container-entrypoint",
    ),
    cause(
        "container-image",
        r"importing docker image: (\S{1,200})\n(?=(?:[^\n]{0,300}\n){0,4}[^\n]{0,80}"
        r"failed to import)"
        r"|pyxis: failed to import docker image(?:[\s\S]{0,1500}?\[ERROR\] ([^\n]{1,160})"
        r"|[\s\S]{0,900}? log file[^\n]{0,9}\n[^\n]{0,60}pyxis: {2,9}(?![ \[])([^\n]{1,160}))?",
        "the node could not import the image: {names}",
        "see the lines of enroot above: a name or login that the registry refuses (401), a full "
        "disk or a folder that the user may not write (ENROOT_CACHE_PATH, ENROOT_RUNTIME_PATH); a "
        "file of an image needs a path with / or ./",
    ),
    cause(
        "container-start",
        r"pyxis: (?:couldn't start container|container start failed)"
        r"(?![\s\S]{0,600}(?:failed to execute: |Command not found: nvidia))"
        r"|(?:pyxis|enroot)[^\n]{0,60}\[ERROR\] ([^\n]{1,160})"
        r"|error: pyxis: (couldn't (?!start)[^\n]{1,160})"
        r"|(?<!modprobe: )FATAL: {2,4}(?!stat )([^\n]{1,400})",
        "the node could not start the container: {names}",
        "see the lines of enroot or apptainer above: a hook of the node, an image that cannot be "
        "pulled or unpacked, a full disk (ENROOT_CACHE_PATH), or a mount that does not exist",
    ),
)
"""In the order in which they are shown."""


def _not_created(words: str) -> str:
    """The pattern of an OCI runtime's refusal with one of these words."""
    return (
        r"(?:OCI runtime \w{4,8} failed|Error: (?:OCI [a-z ]{5,40}: )?(?:crun|runc)): "
        rf"(?=[^\n]{{0,400}}(?:{words}))([^\n]{{1,400}})"
    )


GENERAL_CONTAINER_CAUSES = (
    cause(
        "container-security",
        _not_created(
            r"seccomp|SECCOMP|BPF|\bbpf|[Aa]pp[Aa]rmor|SELinux|selinux|no_new_privs|capabilit"
            r"|keyring|keep caps|SCMP|\bfilter\b|session key|key(?:ring)? (?:desc|perm)"
            r"|syscall|AUDIT_ARCH|architecture|native arch|bounding set"
        ),
        "the node's kernel or engine does not support the container's security settings: {names}",
        "update the engine, runc and libseccomp on the node and load its AppArmor profiles again, "
        "or exclude the node; leave out options of security (seccomp, capabilities, labels) that "
        "the node does not have",
    ),
    cause(
        "user-namespaces",
        _not_created(
            r"userns|user namespace|[ug]id[ _-]?map|[GU]ID map|rootless|setgroups|id-?map|namespace"
            r"|IDMAP|setup user|set[ug]id"
        ),
        "the container's namespaces or users cannot be set up on the node: {names}",
        "let the node's administrator permit user namespaces and a range for the user in "
        "/etc/subuid and /etc/subgid; a container that joins the host's or another one's namespace "
        "needs it to exist",
    ),
    cause(
        "container-mount",
        _not_created(
            r"mount|rootfs|\bmask|/proc|/dev/|\bptmx|symlink|overlay|tmpfs|tmpcopyup|pivot|chroot"
            r"|device (?:node|inode|rule)|readonly|working directory|\bcwd\b|console|lowerdir"
        ),
        "the files or folders of the container could not be mounted: {names}",
        "check the paths, types and permissions of its mounts and devices on the node, and that "
        "its image has a root file system with these folders; run.command's folder must exist in "
        "it",
    ),
    cause(
        "container-network",
        _not_created(r"\b(?:network|interface|route|veth|gateway|hostname|net stats)\b"),
        "the container engine could not set up the container's network: {names}",
        "restart the engine, remove unused networks (`docker network prune`), or use the host's "
        "network",
    ),
    cause(
        "container-option",
        _not_created(
            r"sysctl|rlimit|(?i:scheduler)|ioPriority|[Rr]dt|RDT|CPUAffinity|hugetlb|personality"
            r"|CRIU|criu|checkpoint|restore|oom_score|environment variable|[Ii]nvalid|not allowed"
            r"|required|must (?:be|not)|unsupported|not supported|already exists|annotation|empty"
        ),
        "the container engine refuses a setting of the container: {names}",
        "leave the option out, or correct it: limits, sysctls and devices that the node does not "
        "have, two options that exclude each other, a name that a container has already",
    ),
    cause(
        "container-start",
        _not_created(
            r"pipe|fork|fifo|\bsync\b|pidfd|marshal|\bstate\b|signal|init process|EOF"
            r"|procReady|hook|freeze|freezing|CPU affinity|binary|relative path|tmpfile|paused"
            r"|spawn|sealable"
            r"|copied|closed|pids?\b|PIDs|\bPID\b|waiting|[Rr]eading|[Ww]riting|\bfd\b|LIBCONTAINER|\bstdio"
        ),
        "the container's first process ended, or did not answer, while the engine started it: "
        "{names}",
        "look for memory, processes and disk that are used up on the node, and for a memory limit "
        "that is too small to start; restart the engine, or exclude the node",
    ),
)
"""For refusals of an OCI runtime without any other cause."""
