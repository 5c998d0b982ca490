#!/usr/bin/env bash
# The agent's engine and the chart, with Helm 3 and 4, on a real Kubernetes API server on this machine.
#
# Nodes are played: by kwok for the pods of the engine, and for those of the chart by this trial, which runs them with
# Podman from the images of this commit. `--install` builds the programs of Kubernetes from their Go modules (ten
# minutes, once). `--only=engine` and `--only=chart` run one part.
set -euo pipefail
cd "$(dirname "$0")/../../.."

cache=${SLIPWAY_TRIALS:-$HOME/.cache/slipway-trials}/kubernetes
export PATH=$PWD/node_modules/.bin:/usr/local/go/bin:$PATH
if [[ " $* " == *' --install '* ]]; then
  test/proof/trials/cluster/build.sh "$cache"
  if ! command -v podman skopeo runc ip >/dev/null; then
    apt-get update -qq
    apt-get install --yes --no-install-recommends podman runc skopeo iproute2 unzip
  fi
fi
for program in etcd kwok kube-apiserver kube-controller-manager kube-scheduler; do
  [[ -x $cache/bin/$program ]] && continue
  echo "skipped everything: $program is not in $cache/bin. Run the trial with --install once"
  echo '0 passed, 0 failed, 1 skipped'
  exit 0
done
exec node -r ./src/host/require-node.cjs test/proof/trials/cluster/main.ts "$@"
