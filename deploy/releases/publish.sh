#!/usr/bin/env bash
# Publishes the newest release of releases.json: builds the images of its commit again, refuses them if they are not
# those that the release names, and pushes them and the chart.
#   deploy/releases/publish.sh registry.example.com/team [--plain-http]
# Logs in as `npm run image:push` and Helm do.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

registry=${1:?Name the registry and path, such as registry.example.com/team.}
plain=("${@:2}")
fail() {
  printf '%s\n' "$1" >&2
  exit 1
}
newest() {
  node -e '
    const [it] = JSON.parse(fs.readFileSync("deploy/releases/releases.json"))
    console.log(eval(process.argv[1]) ?? "")' "$1"
}

chart=$(newest it.chart) app=$(newest it.app) commit=$(newest it.commit)
slipway=$(newest it.images?.slipway) agent=$(newest it.images?.agent)
[[ -n $slipway && -n $agent ]] || fail "Release $chart names no images. Record them with \`npm run release -- images\`."
[[ ${GITHUB_REF_TYPE:-} != tag || $GITHUB_REF_NAME == "v$chart" ]] || fail "The tag $GITHUB_REF_NAME is not v$chart."

work=$(mktemp -d)
trap 'git worktree remove --force "$work/source" 2>/dev/null; rm -rf "$work"' EXIT
git worktree add --quiet --detach "$work/source" "$commit"
(cd "$work/source" && npm ci --no-audit --no-fund >/dev/null && npm run --silent image -- --output "$work/layout")
node -e '
  const [file, slipway, agent] = process.argv.slice(1)
  const built = JSON.parse(fs.readFileSync(file, "utf8"))
  if (built.slipway === slipway && built["slipway-agent"] === agent) process.exit(0)
  console.error(`The images of the commit are ${JSON.stringify(built)}. The release names ${slipway} and ${agent}.`)
  process.exit(1)
' "$work/layout/digests.json" "$slipway" "$agent"
npm run --silent image:push -- "$registry" --layout "$work/layout" --tag "$app" "${plain[@]}"

npm run --silent chart:package -- --output "$work/chart" --registry "$registry"
helm push "$work/chart/slipway-$chart.tgz" "oci://$registry/charts" "${plain[@]}"
[[ -z ${GITHUB_OUTPUT:-} ]] || printf '%s\n' "slipway=$slipway" "agent=$agent" >>"$GITHUB_OUTPUT"
