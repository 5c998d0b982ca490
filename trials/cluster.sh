#!/usr/bin/env bash
# The distribution on a real Kubernetes API server with simulated nodes, all on this machine: the agent's engine, and
# the chart with the real Helm. `--install` builds and fetches what it needs (with Go, ten minutes once).
set -euo pipefail
cd "$(dirname "$0")/.."

cache=${SLIPWAY_TRIALS:-$HOME/.cache/slipway-trials}/kubernetes
if [[ ${1:-} == --install ]]; then
  shift
  trials/cluster/build.sh "$cache"
fi
for program in etcd kwok kube-apiserver kube-controller-manager kube-scheduler; do
  [[ -x $cache/bin/$program ]] && continue
  echo "skipped everything: $program is not in $cache/bin. Run it with --install once"
  echo '0 passed, 0 failed, 1 skipped'
  exit 0
done
PATH=$PWD/node_modules/.bin:$PATH
exec node -r ./src/host/require-node.cjs trials/cluster/main.ts "$cache" "$@"
