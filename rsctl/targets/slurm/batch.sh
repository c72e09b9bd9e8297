# Everything below is the same in every job.

# The folder marks SageMaker HyperPod, whose srun alone has this option.
RSCTL_HYPERPOD=()
[ ! -d /opt/sagemaker_cluster ] || RSCTL_HYPERPOD=(--auto-resume=1)

# A job that came by slurmrestd has only the variables that rsctl has sent.
export USER=${USER:-$(id -un)} HOME=${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}

# A start file or `sbatch --export=NONE` may set these: squeue then hides steps, scancel asks a question, and
# srun labels lines or starts tasks without their environment.
unset "${!SQUEUE_@}" "${!SCANCEL_@}" "${!SINFO_@}" "${!SCONTROL_@}" SLURM_EXPORT_ENV SLURM_LABELIO

note() { # WORD... : one line for `rsctl status`, also after Slurm has forgotten the job
    printf '%s %s\n' "$(date -u +%Y-%m-%dT%H:%M:%S.%6NZ)" "$*" >>"$RSCTL_FOLDER/states"
}

finish() { # CODE REASON...
    note ended "$@"
    exit "$1"
}

# A trap only takes a note: bash forgets the time-out of a `read` that a trap with a `read` interrupts.
stop= is_signalled=
on_time_limit() { stop=${stop:-time-limit}; }
on_end() {
    stop=${stop:-ended}
    if [ "${SLURM_JOB_END_TIME:-0}" -gt 0 ] && [ "$(date +%s)" -ge "$SLURM_JOB_END_TIME" ]; then
        stop=time-limit
    fi
}
trap on_time_limit USR1
trap on_end TERM

setup_lines() { # LINE... of targets.slurm.setup, in this shell; a statement may have several lines
    local rsctl_lines=("$@") rsctl_line rsctl_parsed rsctl_text= rsctl_code=0
    set -- # scripts that a line sources, such as conda's activate, see these arguments
    for rsctl_line in "${rsctl_lines[@]}"; do
        rsctl_text+=${rsctl_text:+$'\n'}$rsctl_line
        rsctl_parsed=$(LC_ALL=C bash -nc "$rsctl_text" 2>&1) || continue
        [[ $rsctl_line != *\\ && $rsctl_parsed != *here-document* ]] || continue
        setup_statement || return
    done
    setup_statement
}
setup_statement() { # evaluates the text that setup_lines has collected
    eval "$rsctl_text" || rsctl_code=$?
    [ "$rsctl_code" = 0 ] || echo "rsctl: targets.slurm.setup: exit code $rsctl_code: $rsctl_text" >&2
    rsctl_text=
    return "$rsctl_code"
}

# One job runs for each run: a second one, whose submission had lost its answer, ends here.
claim() {
    local own=${SLURM_CLUSTER_NAME:-slurm}/$SLURM_JOB_ID
    mkdir -p "$RSCTL_FOLDER/logs" "$RSCTL_FOLDER/outputs" || {
        echo "rsctl: cannot make $RSCTL_FOLDER on $(hostname): is targets.slurm.shared there, and may you write to it?" >&2
        exit 3
    }
    case $(stat -c %u "$RSCTL_FOLDER") in
        "$(id -u)" | 0) ;; # root owns all files of some mounts
        *)
            echo "rsctl: $RSCTL_FOLDER belongs to another user" >&2
            exit 3
            ;;
    esac
    ln -s "$own" "$RSCTL_FOLDER/job" 2>/dev/null || [ "$(readlink "$RSCTL_FOLDER/job")" = "$own" ] || {
        echo "rsctl: job $(readlink "$RSCTL_FOLDER/job") runs $RSCTL_RUN; this one, $own, ends" >&2
        exit 0
    }
    chmod 700 "$RSCTL_FOLDER"
    chmod 600 "$RSCTL_FOLDER.batch.log" 2>/dev/null # Slurm makes it for all users, beside the folder
    # Slurm can requeue a job that ends by itself after an earlier preemption (seen with 24.11).
    if grep ' ended ' "$RSCTL_FOLDER/states" 2>/dev/null | tail -n 1 | grep -q ' ended 0 done$'; then
        echo "rsctl: $RSCTL_RUN has ended already; this start of its job does nothing" >&2
        exit 0
    fi
    note started "$own" "${SLURM_RESTART_COUNT:-0}" "${SLURMD_NODENAME:-$(hostname)}"
}

unpack() { # the package, unless an earlier start of this job has done so
    local folder=$RSCTL_FOLDER/package
    [ -d "$folder" ] || {
        rm -rf "$folder.new" && mkdir "$folder.new" &&
            package | base64 -d | tar -xzf - -C "$folder.new" && mkdir -p "$folder.new/source" && mv "$folder.new" "$folder"
    } || finish 3 "cannot unpack the source in $folder: is the disk full?"
}

addresses() { # NODELIST: NAME ADDRESS of each node, as Slurm reaches it
    scontrol show node -o "$1" | sed -n 's/^NodeName=\([^ ]*\) .* NodeAddr=\([^ ]*\) .*/\1 \2/p'
}

# NODES_0 … are the nodes of each component.
find_nodes() {
    local number list name address
    declare -gA ADDRESS=()
    for ((number = 0; number < RSCTL_COMPONENTS; number++)); do
        list=SLURM_JOB_NODELIST_HET_GROUP_$number
        [ "$RSCTL_COMPONENTS" -gt 1 ] || list=SLURM_JOB_NODELIST
        mapfile -t "NODES_$number" < <(scontrol show hostnames "${!list}")
        while read -r name address; do ADDRESS[$name]=$address; done < <(addresses "${!list}")
    done
}

nodes_of() { # COMPONENT SKIPPED COUNT: their names, with commas between
    local -n all=NODES_$1
    local IFS=,
    echo "${all[*]:$2:$3}"
}

# Sets `options` to those of srun for tasks of a step.
step_options() { # COMPONENT SKIPPED NODES TASKS
    options=(--input=none --overlap --unbuffered "--nodes=$3" "--ntasks=$4" "--nodelist=$(nodes_of "$1" "$2" "$3")")
    [ "$RSCTL_COMPONENTS" = 1 ] || options=("--het-group=$1" "${options[@]}")
    [ "$3" = "$4" ] || options+=(--distribution=cyclic)
}

# Prove, in the place of each task, that the shared folder is the same; choose a free port for each.
probe() { # EPOCH
    local token epoch=$1 lines code name role first component skipped nodes tasks options
    token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    mkdir -p "$RSCTL_LOGS" && echo "$token" >"$RSCTL_LOGS/token" || finish 3 "cannot write in $RSCTL_LOGS"
    lines=
    while read -r name role first component skipped nodes tasks; do
        step_options "$component" "$skipped" "$nodes" "$tasks"
        code=0
        lines+=$(start_probe "${options[@]}" "$role" "$first" "$RSCTL_LOGS" "$token" 2>"$RSCTL_LOGS/probe.err")$'\n' || code=$?
        [ "$code" = 0 ] || {
            cat "$RSCTL_LOGS/probe.err" >&2
            note_suspects
            finish 3 "$(why_not | grep -m 1 . || echo "the nodes of $name cannot start a task: see the log")"
        }
        grep -v '^srun: ' "$RSCTL_LOGS/probe.err" >&2
    done <<<"$RSCTL_STEPS"
    rm -f "$RSCTL_LOGS/probe.err"
    choose_ports "$lines"
}

why_not() { # what a probe that has failed says, or its Python (exit code 2) where the shared folder is not mounted
    sed -n 's/^rsctl-probe-failed \([^ ]*\) /node \1 /p' <<<"$lines"
    sed -n 's/^rsctl: //p' "$RSCTL_LOGS/probe.err"
    ! grep -q "can't open file '.*/rsctl_start.py'" "$RSCTL_LOGS/probe.err" ||
        sed -n "s|^srun: error: \([^ :]*\): task.*: Exited with exit code 2\$|node \1 does not see $RSCTL_FOLDER: is targets.slurm.shared mounted there?|p" "$RSCTL_LOGS/probe.err"
}

choose_ports() { # LINES: sets RSCTL_SLURM_NODES
    local word role index node ports port address
    local -A taken=()
    RSCTL_SLURM_NODES=
    while read -r word role index node ports; do
        [ "$word" = rsctl-probe ] || continue
        address=${ADDRESS[$node]:-$node}
        for port in $ports; do
            [ -n "${taken[$address:$port]:-}" ] || break
        done
        taken[$address:$port]=1
        RSCTL_SLURM_NODES+="${RSCTL_SLURM_NODES:+;}$role $index $node $address $port"
    done <<<"$1"
    export RSCTL_SLURM_NODES
}

# Nodes of this job that Slurm has taken out of service, or that do not answer: they may be why it failed.
note_suspects() {
    local number all=() found
    for ((number = 0; number < RSCTL_COMPONENTS; number++)); do
        local -n nodes=NODES_$number
        all+=("${nodes[@]}")
    done
    found=$({
        (IFS=, && sinfo --noheader --Node --nodes="${all[*]}" --format='%N %T') |
            sed -n 's/^\([^ ]*\) \([a-z]*\*\|down.*\|drain.*\|fail.*\|error.*\)$/\1 \2/p'
        silent_nodes
    } | sort -u -k 1,1 | head -n 20 | tr '\n' ';')
    [ -z "$found" ] || note suspects "${found%;}"
    found=$(grep -xE '[A-Za-z0-9_.-]+' "$RSCTL_LOGS/unhealthy" 2>/dev/null | sort -u | head -n 20 | tr '\n' ';')
    [ -z "$found" ] || note unhealthy "${found%;}"
}

# Nodes that srun could not reach. The controller notices a dead node minutes later (SlurmdTimeout).
silent_nodes() {
    local names
    sed -n 's/^srun: error: \(Node failure on\|Task launch for .* failed on node\) \([^ :]*\).*/\2/p' \
        "$RSCTL_LOGS"/*.step "$RSCTL_LOGS/probe.err" 2>/dev/null |
        while read -r names; do scontrol show hostnames "$names" | sed 's/$/ silent/'; done
}

declare -A PID=() CODE=()

soft_stop() { # NAME... : slurm_task takes SIGURG, which other processes ignore, and passes SIGTERM on
    local id name
    while read -r id name; do
        case " $* " in *" ${name#"$RSCTL_RUN."} "*) scancel --signal=URG "$id" ;; esac
    done < <(squeue --noheader --steps --me --format='%i %j' | grep -F " $RSCTL_RUN.")
}

signal_steps() { # all but those that end with the workers
    # shellcheck disable=SC2086
    soft_stop $RSCTL_AWAITED
}

stop_steps() { # NAME... : softly, and after ten seconds by Slurm
    local name until=$((SECONDS + 10))
    [ $# = 0 ] || soft_stop "$@"
    for name in "$@"; do
        while [ -n "${PID[$name]:-}" ] && kill -0 "${PID[$name]}" 2>/dev/null && [ $SECONDS -lt $until ]; do pause; done
        [ -z "${PID[$name]:-}" ] || kill -TERM "${PID[$name]}" 2>/dev/null
    done
    for name in "$@"; do
        while [ -n "${PID[$name]:-}" ] && kill -0 "${PID[$name]}" 2>/dev/null; do pause; done
    done
}

# Slurm requeues a preempted job only if its batch script still runs at the end of the grace time.
await_preemption() {
    local until=$((SECONDS + 900))
    scontrol show job -o "$SLURM_JOB_ID" | grep -q ' PreemptTime=[0-9]' || return 0
    echo "rsctl: the job is preempted" >&2
    while [ -z "$stop" ] && [ $SECONDS -lt $until ]; do pause; done
}

pause() { read -r -t 0.2 -u "$timer" || true; }

collect() { # take the ends of steps
    local name
    for name in "${!PID[@]}"; do
        kill -0 "${PID[$name]}" 2>/dev/null && continue
        CODE[$name]=0
        wait "${PID[$name]}" || CODE[$name]=$?
        unset "PID[$name]"
    done
}

# All steps once. Returns the exit code of the step that has decided: the first that failed, or 0 when
# the workers, and roles that end by themselves, have ended.
run_steps() {
    local name role first component skipped nodes tasks options open
    PID=() CODE=()
    while read -r name role first component skipped nodes tasks; do
        step_options "$component" "$skipped" "$nodes" "$tasks"
        options+=("--job-name=$RSCTL_RUN.$name")
        [ "$role" != worker ] || options+=(--kill-on-bad-exit=1)
        "step_$name" "$role" "$first" "${options[@]}" >>"$RSCTL_LOGS/$name.step" 2>&1 &
        PID[$name]=$!
    done <<<"$RSCTL_STEPS"
    while :; do
        collect
        if [ "$stop" = time-limit ] && [ -z "$is_signalled" ]; then
            is_signalled=1
            signal_steps
        fi
        open=
        for name in "${!CODE[@]}"; do
            [ "${CODE[$name]}" = 0 ] && continue
            stop_steps "${!PID[@]}"
            return "${CODE[$name]}"
        done
        for name in $RSCTL_AWAITED; do
            [ -n "${CODE[$name]:-}" ] || open=1
        done
        [ -n "$open" ] || break
        pause
    done
    stop_steps "${!PID[@]}"
    return 0
}

main() {
    local attempt code=0 restart=${SLURM_RESTART_COUNT:-0}
    claim
    cd "$RSCTL_FOLDER" || finish 3 "cannot use $RSCTL_FOLDER"
    exec {timer}<> <(:)
    unpack
    set_up || finish 3 "targets.slurm.setup failed: see the log"
    export PYTHONPATH=$RSCTL_FOLDER/package/runtime${PYTHONPATH:+:$PYTHONPATH}
    find_nodes
    for ((attempt = 0; attempt <= RSCTL_RETRIES; attempt++)); do
        export RSCTL_ATTEMPT=$((restart * (RSCTL_RETRIES + 1) + attempt))
        RSCTL_LOGS=$RSCTL_FOLDER/logs/$RSCTL_ATTEMPT
        probe "$RSCTL_ATTEMPT"
        note running "$RSCTL_ATTEMPT" "$RSCTL_SLURM_NODES"
        code=0
        run_steps || code=$?
        [ "$code" != 0 ] || [ ! -e "$RSCTL_LOGS/stopped" ] || code=143
        [ "$code" = 0 ] || [ -n "$stop" ] || await_preemption
        [ "$code" != 0 ] && [ -z "$stop" ] || break
        [ "$attempt" = "$RSCTL_RETRIES" ] || note failed "$RSCTL_ATTEMPT" "$code"
    done
    [ "$code" = 0 ] || [ -n "$stop" ] || note_suspects
    finish "$code" "${stop:-done}"
}

main
