"""The script that a remote build runs, one constant text, and its arguments.

Values from a job file are arguments or environment, never text of a script.
"""

from __future__ import annotations

from rsctl.images.recipe import Recipe

SCRIPT = """\
# Arguments: the base, its platform or nothing, the image, its repository, push or keep, and
# docker build's own. Pushing leaves the digest in the file rsctl-digest.
set -eu
base=$1 platform=$2 image=$3 repository=$4 push=$5
shift 5
# From client 23 on, BuildKit is a plugin, which may not be installed.
client=$(docker version --format '{{.Client.Version}}')
export DOCKER_BUILDKIT=0 BUILDKIT_PROGRESS=plain
if docker buildx version >/dev/null 2>&1 || [ "${client%%.*}" -lt 23 ]; then
  DOCKER_BUILDKIT=1
fi
# The user's Dockerfile, where it is what the base is made of.
if [ -e base.tar ]; then
  docker build ${platform:+--platform "$platform"} --file .rsctl-dockerfile --tag "$base" - \
    < base.tar
  echo 'rsctl: the Dockerfile is built'
fi
if ! docker image inspect "$base" >/dev/null 2>&1; then
  if ! docker pull --quiet ${platform:+--platform "$platform"} "$base"; then
    echo '{"rsctl": "finding", "severity": "error", "code": "base-pull",\
 "message": "the cloud builder cannot pull the base image",\
 "remedy": "correct image.base, or let the build service read the registry it is in"}'
    exit 1
  fi
fi
is=$(docker image inspect --format '{{.Os}}/{{.Architecture}}' "$base")
case "$is" in ''|"$platform"*) ;; *)
  printf '{"rsctl": "finding", "severity": "error", "code": "platform", "message": "the base is \
for %s, not for %s", "remedy": "take a base for that"}\n' "$is" "$platform"
  exit 1 ;;
esac
user=$(docker image inspect --format '{{.Config.User}}' "$base")
if [ -n "$user" ]; then set -- --build-arg "BASE_USER=$user" "$@"; fi
if [ "$DOCKER_BUILDKIT" = 1 ]; then
  set -- --cache-from "$repository:rsctl-cache" --build-arg BUILDKIT_INLINE_CACHE=1 "$@"
else
  set -- --force-rm "$@"
fi
docker build "$@" --tag "$image" - < context.tar
if [ "$DOCKER_BUILDKIT" = 1 ]; then
  docker tag "$image" "$repository:rsctl-cache"
  docker push --quiet "$repository:rsctl-cache" >/dev/null 2>&1 ||
    echo "rsctl: the layers were not kept as $repository:rsctl-cache; the next build starts afresh"
fi
if [ "$push" = push ]; then
  docker push "$image"
  docker image inspect --format '{{range .RepoDigests}}{{println .}}{{end}}' "$image" |
    while read -r line; do
      case "$line" in "$repository@"*) echo "${line##*@}" > rsctl-digest ;; esac
    done
fi
"""


def script_arguments(recipe: Recipe, push: bool) -> list[str]:
    """The arguments of SCRIPT for a recipe that has a repository."""
    arguments = [recipe.base, recipe.platform or "", recipe.reference, recipe.repository or ""]
    arguments.append("push" if push else "keep")
    if recipe.platform:
        arguments += ["--platform", recipe.platform]
    for key, value in sorted(recipe.labels.items()):
        arguments += ["--label", f"{key}={value}"]
    return arguments
