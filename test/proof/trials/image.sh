#!/usr/bin/env bash
# Builds the images twice, runs them without privileges, pushes and pulls them, and builds them by the Dockerfile.
# It needs podman with runc, skopeo and docker-registry, and the network for packages. Takes about eight minutes.
. "$(dirname "$0")/../support/trial.sh"

need podman runc skopeo docker-registry || skip_all "everything: $missing"
# Rootless engines and machines without a systemd of their own refuse the limits that Podman sets by default.
printf '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n[engine]\nruntime = "runc"\n' \
  >"$work/containers.conf"
export CONTAINERS_CONF=$work/containers.conf
podman() { command podman --log-level=error "$@"; }
skopeo() { command skopeo --insecure-policy "$@"; }
# json FILE EXPRESSION: what `it`, the content of the file, has there
json() {
  node -e 'const it = JSON.parse(fs.readFileSync(process.argv[1], "utf8")); console.log(eval(process.argv[2]))' "$@"
}

# ---- two builds

[[ -z $(git status --porcelain) ]] || note 'files have changed since the commit: the trial shows the commit'
npm_cafile=$(npm config get cafile)
clone() { # FOLDER
  mkdir -p "$(dirname "$1")"
  git clone --quiet --no-hardlinks . "$1"
  cp -al node_modules "$1/node_modules"
}
build_twice() {
  clone "$work/one"
  (cd "$work/one" && npm run --silent image -- --output "$work/layout") >"$work/one.log" ||
    fail "the build: $(tail -3 "$work/one.log")"
  sed 's/^/        /' "$work/one.log"
  # Another folder, user, home, umask, time zone and language; nothing is cached.
  other=$work/another/and-deeper/two
  mkdir -p "$work/home" && chmod 755 "$work/another" 2>/dev/null || true
  (umask 077 && clone "$other")
  chmod 755 "$work/another" "$work/another/and-deeper"
  as_other=()
  if [[ $(id -u) -eq 0 ]]; then
    mkdir -p "$work/other-output"
    find "$other" -path "$other/node_modules" -prune -o -print0 | xargs -0 chown -h 65534:65534
    chown 65534:65534 "$work/home" "$work/other-output"
    as_other=(setpriv --reuid=65534 --regid=65534 --clear-groups)
  fi
  (umask 077 && cd "$other" && "${as_other[@]}" env -u SOURCE_DATE_EPOCH HOME="$work/home" TZ=Asia/Tokyo LC_ALL=C \
    SLIPWAY_IMAGE_CACHE="$work/home/cache" npm_config_cache="$work/home/npm" npm_config_cafile="$npm_cafile" \
    npm run --silent image -- --output "$work/other-output/layout") >"$work/two.log" 2>&1 ||
    fail "the second build: $(tail -3 "$work/two.log")"
  expect 'two builds of one commit have the same digests' "$(cat "$work/other-output/layout/digests.json")" \
    "$(cat "$work/layout/digests.json")"
  refuse 'a build of changed files is refused' \
    bash -c "cd '$work/one' && echo >>README.md && npm run --silent image -- --output '$work/never'"
  rm -rf "$work/other-output" "$work/another" "$work/home"
}
# IMAGE_LAYOUT: what `npm run image` wrote of this commit, to try the rest of this trial faster.
if [[ -n ${IMAGE_LAYOUT:-} ]]; then
  cp -a "$IMAGE_LAYOUT" "$work/layout"
  skipped 'two builds: IMAGE_LAYOUT is set'
else build_twice; fi

# ---- contents

declare -A rootfs
mkdir "$work/rootfs"
for image in slipway slipway-agent; do
  for platform in amd64 arm64; do
    folder=$work/rootfs/$image-$platform
    rootfs[$image-$platform]=$folder
    node test/proof/trials/image/unpack.ts "$work/layout" $image $platform "$folder" >"$folder.list"
  done
done
list=$work/rootfs/slipway-amd64.list
agent_list=$work/rootfs/slipway-agent-amd64.list
expect 'the files of Slipway and its packages are the same for every processor' \
  "$(grep '^app' "$work/rootfs/slipway-arm64.list" | sha256sum)" "$(grep '^app' "$list" | sha256sum)"
expect 'the control plane has no shell and no npm' "$(grep -E '/(sh|bash|dash|npm|npx|git)	' "$list" || true)" ''
expect 'no file can change its user' "$(grep -hE '	(file|folder) [2467][0-7]{3} ' "$list" "$agent_list" || true)" ''
expect 'only /tmp is writable by everyone' \
  "$(grep -hE '	(file|folder) 1?[0-7]{2}[2367] ' "$list" "$agent_list" | cut -f1 | sort -u | xargs)" tmp
dev=$(node -e '
  const { packages } = JSON.parse(fs.readFileSync("package-lock.json"))
  const PACKAGE = /^app\/(.*node_modules\/(?:@[^/]+\/)?[^/]+)\/package\.json\t/gm
  const found = [...fs.readFileSync(0, "utf8").matchAll(PACKAGE)].map(([, path]) => path)
  console.log(found.filter(path => packages[path]?.dev).join(" "))' <"$agent_list")
expect 'no package of development is inside' "$dev" ''
expect 'neither sources of git, nor settings of people, nor the command line are inside' \
  "$(cat "$list" "$agent_list" | grep -v node_modules |
    grep -E '(^|/)(\.git|\.npmrc|\.env[^/]*|\.dev\.vars|\.ssh)(/|	)|^app/test/|^app/src/cli/' || true)" ''
for folder in "${rootfs[slipway-amd64]}" "${rootfs[slipway-agent-amd64]}"; do
  found=$(grep -rlE --exclude-dir=node_modules -e '-----BEGIN [A-Z ]*PRIVATE KEY-----(\\n|)[A-Za-z0-9+/]{40}' \
    -e "$work|$HOME/" "$folder/app" "$folder/etc" || true)
  expect "no key and no path of the build is inside $(basename "$folder")" "$found" ''
done
if need readelf; then
  for name in slipway-amd64 slipway-arm64 slipway-agent-amd64 slipway-agent-arm64; do
    folder=${rootfs[$name]}
    # Scripts are no ELF files, which readelf reports by its status.
    missing=$(find "$folder/usr" -type f \( -perm -u+x -o -name '*.so*' \) -print0 |
      (xargs -0 readelf -d 2>/dev/null || true) | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u |
      while read -r library; do
        [[ -n $(find "$folder/usr" -name "$library" -print -quit) ]] || echo "$library"
      done)
    expect "every program of $name finds its libraries" "$missing" ''
  done
else skipped "libraries of the programs: $missing"; fi

library=$CACHE/cyclonedx
[[ -d $library/node_modules ]] || ! $install || (mkdir -p "$library" && cd "$library" && npm init -y &&
  npm install @cyclonedx/cyclonedx-library@10.3.0 ajv@8 ajv-formats@3 ajv-formats-draft2019@1) >"$CACHE/cyclonedx.log"
for image in slipway slipway-agent; do
  for platform in amd64 arm64; do
    bill=$work/layout/$image.$platform.cdx.json
    if [[ -d $library/node_modules ]]; then
      check "the bill of materials of $image $platform is valid, and names exactly what is inside" \
        node test/proof/trials/image/check-bill.ts "$library" "$bill" "${rootfs[$image-$platform]}"
    else skipped "the bill of materials of $image $platform: run with --install"; fi
  done
  provenance=$work/layout/$image.provenance.json
  expect "the provenance of $image names the digest" "sha256:$(json "$provenance" it.subject[0].digest.sha256)" \
    "$(json "$work/layout/digests.json" "it['$image']")"
  source=$(json "$provenance" 'it.predicate.buildDefinition.resolvedDependencies[0].digest.gitCommit')
  expect "the provenance of $image names the commit" "$source" "$(git rev-parse HEAD)"
done

# ---- a registry

registry_port=$(free_port)
registry=127.0.0.1:$registry_port
cat >"$work/registry.yml" <<YML
version: 0.1
storage: { filesystem: { rootdirectory: $work/registry } }
http: { addr: $registry }
YML
docker-registry serve "$work/registry.yml" >"$work/registry.log" 2>&1 &
stop_at_end $!
until_true 10 curl -fsS "http://$registry/v2/" || fail 'the registry does not start'
push() { npm run --silent image:push -- "$registry/team" --layout "$work/layout" --plain-http "$@"; }
check 'the images are pushed' push --tag 1.2.3
expect 'a second push sends no blob' "$(push --tag 1.2.3 | grep -c '^pushed' || true)" 0
digest=$(json "$work/layout/digests.json" it.slipway)
expect 'the tag has the digest of the build' \
  "$(skopeo inspect --tls-verify=false --format '{{.Digest}}' "docker://$registry/team/slipway:1.2.3")" "$digest"
oci=application/vnd.oci.image
manifest=$(curl -fsS -H "Accept: $oci.index.v1+json" "http://$registry/v2/team/slipway/manifests/$digest")
of_amd64='m => m.platform.architecture === "amd64"'
amd64=$(node -p "JSON.parse(process.argv[1]).manifests.find($of_amd64).digest" "$manifest")
referrer() { # DIGEST TYPE: the document that refers to the digest
  local base=http://$registry/v2/team/slipway accept="Accept: $oci.index.v1+json, $oci.manifest.v1+json"
  local found document
  found=$(curl -fsS -H "$accept" "$base/manifests/${1/:/-}" |
    node -p 'JSON.parse(fs.readFileSync(0)).manifests.find(m => m.artifactType === process.argv[1]).digest' "$2")
  document=$(curl -fsS -H "$accept" "$base/manifests/$found" |
    node -p 'JSON.parse(fs.readFileSync(0)).layers[0].digest')
  curl -fsS "$base/blobs/$document"
}
same_json() {
  node -e '
    const [a, b] = process.argv.slice(1).map(text => JSON.stringify(JSON.parse(text)))
    process.exitCode = a === b ? 0 : 1' "$@"
}
check 'the registry has the bill of materials as a referrer' \
  same_json "$(referrer "$amd64" application/vnd.cyclonedx+json)" "$(cat "$work/layout/slipway.amd64.cdx.json")"
check 'the registry has the provenance as a referrer' \
  same_json "$(referrer "$digest" application/vnd.in-toto+json)" "$(cat "$work/layout/slipway.provenance.json")"
skopeo copy -q --all --dest-tls-verify=false --src-tls-verify=false \
  "docker://$registry/team/slipway-agent:1.2.3" "docker://$registry/moved/slipway:1.2.3"
refuse 'a tag that has another digest is not moved' \
  npm run --silent image:push -- "$registry/moved" --layout "$work/layout" --plain-http --tag 1.2.3

images=()
remove_images() { ((${#images[@]} == 0)) || podman rmi --force "${images[@]}" >/dev/null 2>&1; }
at_end remove_images
for image in slipway slipway-agent; do
  reference=$registry/team/$image@$(json "$work/layout/digests.json" "it['$image']")
  images+=("$reference")
  check "$image is pulled by its digest" podman pull --quiet --tls-verify=false "$reference"
done
control_image=${images[0]} agent_image=${images[1]}
images+=(localhost/slipway-loaded:1.2.3)
skopeo copy -q "oci:$work/layout:slipway" "docker-archive:$work/slipway.tar:localhost/slipway-loaded:1.2.3"
check 'an archive is loaded where there is no registry' podman load --quiet --input "$work/slipway.tar"
rm -f "$work/slipway.tar"

# ---- an installation

containers=()
remove_containers() {
  for name in "${containers[@]}"; do podman rm --force --time 2 "$name" >/dev/null 2>&1; done
  podman volume rm "$TRIAL-$$-state" "$TRIAL-$$-agent" >/dev/null 2>&1
}
at_end remove_containers
# Read-only, without capabilities, with the seccomp profile of the engine. The user is that of the image.
confined=(--read-only --cap-drop all --security-opt no-new-privileges --network host --tmpfs /tmp:mode=1777)
postgres_port=$(free_port)
node test/proof/trials/image/postgres.ts "$work/postgres" "$postgres_port" \
  >"$work/postgres.url" 2>"$work/postgres.err" &
stop_at_end $!
until_true 60 test -s "$work/postgres.url" || fail "Postgres does not start: $(cat "$work/postgres.err")"
owner=$(cat "$work/postgres.url")
slipway() { podman run --rm "${confined[@]}" "${settings[@]}" "$control_image" "$@"; }
settings=(--env "DATABASE_OWNER_URL=$owner")
check '`slipway migrate` migrates' slipway migrate
expect '`slipway migrate` twice changes nothing' "$(slipway migrate)" 'database up to date'
slipway logins >"$work/logins.env"
port=$(free_port)
cat >>"$work/logins.env" <<ENV
SEALING_KEYS=k1:$(node -p 'crypto.randomBytes(32).toString("base64url")')
PUBLIC_URL=http://127.0.0.1:$port
PORT=$port
HOST=127.0.0.1
ENV
settings=(--env-file "$work/logins.env")
slipway bootstrap --organization Trial --platform-listener trial >"$work/keys"
key=$(sed -n 's/^API key *//p' "$work/keys") agent_key=$(sed -n 's/^Agent key *//p' "$work/keys")
containers+=("$TRIAL-$$-control" "$TRIAL-$$-agent")
podman run --detach --name "$TRIAL-$$-control" "${confined[@]}" "${settings[@]}" \
  --volume "$TRIAL-$$-state:/var/lib/slipway" "$control_image" >/dev/null
url=http://127.0.0.1:$port
started=$(date +%s%N)
until_true 30 curl -fsS "$url/readyz" || fail "the control plane: $(podman logs "$TRIAL-$$-control" 2>&1 | tail -5)"
note "ready after $((($(date +%s%N) - started) / 1000000)) ms"
for path in /ui /docs /openapi.json; do check "the image serves $path" curl -fsS -o /dev/null "$url$path"; done
asset=$(curl -fsS "$url/ui" | grep -oE '/ui/assets/main-[^"]+\.js' | head -1)
expect 'the dashboard is built in, and compressed' \
  "$(curl -fsS -o /dev/null -H 'Accept-Encoding: br' -w '%header{content-encoding}' "$url$asset")" br
pid=$(podman inspect --format '{{.State.Pid}}' "$TRIAL-$$-control")
status() { awk -v name="$1:" '$1 == name { print $2 }' "/proc/$pid/status"; }
expect 'it runs as user 65532' "$(status Uid)" 65532
expect 'it has no capability' "$(status CapEff)$(status CapBnd)" 00000000000000000000000000000000
expect 'it is filtered by seccomp, and gains no privilege' "$(status Seccomp) $(status NoNewPrivs)" '2 1'

router=$(free_port)
podman run --detach --name "$TRIAL-$$-agent" "${confined[@]}" --volume "$TRIAL-$$-agent:/var/lib/slipway" \
  --env "SLIPWAY_URL=$url" --env "SLIPWAY_LISTENER_KEY=$agent_key" "$agent_image" agent --port "$router" >/dev/null
api() { curl -fsS -X "$1" -H "X-Api-Key: $key" -H 'Content-Type: application/json' "$url$2" "${@:3}"; }
field() { node -p 'JSON.parse(fs.readFileSync(0))[process.argv[1]]' "$1"; }
id=$(api POST /v2/deployments -d '{
  "name": "from-the-image", "source": "internal_template",
  "source_config": { "template_id": "web-service" }, "source_revision_config": {}, "secrets": []
}' | field id)
is_served() { [[ $(api GET "/v2/deployments/$id" | field url) == http* ]]; }
if until_true 90 is_served; then passed 'a template is deployed by the agent of the image'; else
  failed "a template is deployed: $(podman logs "$TRIAL-$$-agent" 2>&1 | tail -5)"
fi
address=$(api GET "/v2/deployments/$id" | field url)
note "$address"
check 'the deployment answers' curl -fsS "$address"
in_agent() { podman exec "$TRIAL-$$-agent" "$@"; }
check 'git of the agent finds its libraries' in_agent git --version
expect 'git of the agent speaks https' \
  "$(in_agent git ls-remote https://127.0.0.1:1/x.git 2>&1 | grep -c 'Failed to connect' || true)" 1
expect 'git of the agent speaks ssh' \
  "$(in_agent git ls-remote ssh://git@127.0.0.1:1/x.git 2>&1 | grep -c 'port 1: Connection refused' || true)" 1
expect 'npm of the agent runs' "$(in_agent npm --version)" "$(json deploy/images/lock.json it.npm.version)"
expect 'the first process of the agent reaps' "$(in_agent cat /proc/1/comm)" tini

stop() { # NAME: how it ended, and in how many seconds
  local start=$SECONDS
  podman stop --time 30 "$TRIAL-$$-$1" >/dev/null 2>&1 || true
  local seconds=$((SECONDS - start))
  note "$1 ended after $seconds s"
  podman inspect --format '{{.State.ExitCode}}' "$TRIAL-$$-$1"
}
# A request that has begun before SIGTERM is answered after it.
finish_request() {
  local body='{"name": "half-sent", "source": "internal_template", "source_config": {"template_id": "web-service"},
    "source_revision_config": {}, "secrets": []}'
  exec 3<>"/dev/tcp/127.0.0.1/$port"
  printf 'POST /v2/deployments HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Api-Key: %s\r\n' "$key" >&3
  printf 'Content-Type: application/json\r\nContent-Length: %s\r\n\r\n%s' "${#body}" "${body:0:20}" >&3
  sleep 0.5
  podman kill --signal TERM "$TRIAL-$$-control" >/dev/null
  sleep 1
  printf '%s' "${body:20}" >&3
  head -1 <&3 | cut -d' ' -f2
}
expect 'SIGTERM ends the agent with status 0' "$(stop agent | tail -1)" 0
expect 'SIGTERM lets a request in flight finish' "$(finish_request)" 201
expect 'SIGTERM ends the control plane with status 0' "$(stop control | tail -1)" 0

# ---- arm64

if need qemu-aarch64-static; then
  folder=${rootfs[slipway-arm64]}
  expect 'Node of arm64 runs (emulated)' "$(qemu-aarch64-static -L "$folder" "$folder/usr/local/bin/node" --version)" \
    "v$(json deploy/images/lock.json it.node.arm64.version)"
  check 'the programs of arm64 load (emulated)' \
    qemu-aarch64-static -L "$folder" "$folder/usr/local/bin/node" "$folder/app/src/host/main.ts" --help
  folder=${rootfs[slipway-agent-arm64]}
  check 'git of arm64 runs (emulated)' qemu-aarch64-static -L "$folder" "$folder/usr/bin/git" --version
  check 'ssh of arm64 runs (emulated)' qemu-aarch64-static -L "$folder" "$folder/usr/bin/ssh" -V
else skipped 'arm64: qemu-user-static is not installed'; fi

# ---- the Dockerfile

clone "$work/docker"
(cd "$work/docker" && npm run --silent image -- --base --platform amd64 --output "$work/base") >"$work/base.log"
declare -A bases
for name in slipway-base slipway-agent-base; do
  images+=("localhost/$name:trial")
  skopeo copy -q "oci:$work/base:$name" "containers-storage:localhost/$name:trial"
  bases[$name]=localhost/$name@$(podman image inspect --format '{{.Digest}}' "localhost/$name:trial")
done
secret=()
[[ ! -f $npm_cafile ]] || secret=(--secret "id=ca,src=$npm_cafile")
build() { # TARGET BASE AGENT_BASE
  (cd "$work/docker" && podman build --quiet --network host "${secret[@]}" \
    --file deploy/images/Dockerfile --target "$1" \
    --build-arg "SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)" --build-arg "BASE=$2" --build-arg "AGENT_BASE=$3" \
    --tag "localhost/$1-docker:trial" .)
}
refuse 'the Dockerfile refuses bases without a digest' \
  build slipway localhost/slipway-base:trial localhost/slipway-agent-base:trial
for image in slipway slipway-agent; do
  images+=("localhost/$image-docker:trial")
  check "the Dockerfile builds $image" build "$image" "${bases[slipway-base]}" "${bases[slipway-agent-base]}"
  skopeo copy -q "containers-storage:localhost/$image-docker:trial" "oci:$work/docker-layout:$image"
  node test/proof/trials/image/unpack.ts "$work/docker-layout" "$image" amd64 "$work/docker-rootfs" >"$work/docker.list"
  difference=$(diff "$work/rootfs/$image-amd64.list" "$work/docker.list" || true)
  expect "the Dockerfile makes the same files of $image" "$(head -5 <<<"$difference")" ''
  rm -rf "$work/docker-rootfs" "$work/docker-layout"
done
