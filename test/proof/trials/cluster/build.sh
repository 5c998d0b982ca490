#!/usr/bin/env bash
# Builds the programs of a Kubernetes control plane from their published Go modules, into the folder named first.
# Nothing is taken from a registry of images. A program that is there already is left alone.
set -euo pipefail

to=${1:?the folder for the programs}
kubernetes=1.36.3
etcd=3.7.3
kwok=0.8.0
gateway_api=1.6.3
snapshotter=8.4.0
keda=2.18.1

# Two at a time at most, and behind everything else: these builds are long, and the machine may be somebody's own.
export GOFLAGS="-buildvcs=false -mod=mod -p=${SLIPWAY_TRIALS_JOBS:-1}" GOTOOLCHAIN=auto CGO_ENABLED=0
mkdir -p "$to/bin"

# Prints a member of what Go says about a module that it has downloaded.
download() {
  (cd "$1" && GOFLAGS='' go mod download -json "$2" | sed -n "s/.*\"$3\": \"\(.*\)\",/\1/p")
}

# The module k8s.io/kubernetes points at its own source tree for the modules that it publishes beside it (1.36.3 beside
# 0.36.3). `replace` only counts in the main module, so a module of ours says where they are.
build_kubernetes() {
  [ -x "$to/bin/kube-scheduler" ] && return
  local staging=0.${kubernetes#1.} module=$to/modules/kubernetes
  mkdir -p "$module"
  local source
  source=$(download "$module" "k8s.io/kubernetes@v$kubernetes" GoMod)
  {
    echo 'module slipway.invalid/kubernetes'
    sed -n '/^go /p;/^godebug /p;/^require (/,/^)/p' "$source" \
      | sed -E "s#^(\tk8s.io/[^ ]+) v0.0.0( |\$)#\1 v$staging\2#"
    echo "require k8s.io/kubernetes v$kubernetes"
    echo 'replace ('
    sed -n -E "s#^\t(k8s.io/[^ ]+) => ./staging.*#\t\1 => \1 v$staging#p" "$source"
    echo ')'
  } > "$module/go.mod"
  local version="-X k8s.io/component-base/version.gitVersion=v$kubernetes -X k8s.io/component-base/version.gitMajor=1"
  version="$version -X k8s.io/component-base/version.gitMinor=$(echo "$kubernetes" | cut -d. -f2)"
  local program
  for program in kube-apiserver kube-controller-manager kube-scheduler; do
    (cd "$module" \
      && nice -n 15 go build -ldflags "-s -w $version" -o "$to/bin/$program" "k8s.io/kubernetes/cmd/$program")
  done
}

# Builds one program of a module that can be the main module itself.
build() {
  local program=$1 module=$2 version=$3 package=$4 folder=$to/modules/$1
  [ -x "$to/bin/$program" ] && return
  mkdir -p "$folder"
  (cd "$folder" && rm -f go.mod go.sum && go mod init "slipway.invalid/$program" && go get "$module@v$version" \
    && nice -n 15 go build -ldflags '-s -w' -o "$to/bin/$program" "$package")
}

build etcd go.etcd.io/etcd/server/v3 "$etcd" go.etcd.io/etcd/server/v3
build kwok sigs.k8s.io/kwok "$kwok" sigs.k8s.io/kwok/cmd/kwok
# The stages of kwok for nodes and pods, from its module.
stages=$(cd "$to/modules/kwok" && go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage
for stage in pod/fast/pod-ready pod/fast/pod-complete pod/fast/pod-delete node/fast/node-initialize; do
  echo ---
  cat "$stages/$stage.yaml"
done > "$to/stages.yaml"
gateway=$(download "$to/modules/kwok" "sigs.k8s.io/gateway-api@v$gateway_api" Dir)
mkdir -p "$to/gateway-api"
cp "$gateway"/config/crd/standard/gateway.networking.k8s.io_{gatewayclasses,gateways,httproutes}.yaml "$to/gateway-api/"
chmod u+w "$to"/gateway-api/*
snapshots=$(download "$to/modules/kwok" "github.com/kubernetes-csi/external-snapshotter/client/v8@v$snapshotter" Dir)
mkdir -p "$to/volume-snapshots"
cp "$snapshots"/config/crd/snapshot.storage.k8s.io_*.yaml "$to/volume-snapshots/"
chmod u+w "$to"/volume-snapshots/*
keda_source=$(download "$to/modules/kwok" "github.com/kedacore/keda/v2@v$keda" Dir)
mkdir -p "$to/keda"
cp "$keda_source"/config/crd/bases/keda.sh_scaledobjects.yaml "$to/keda/"
chmod u+w "$to"/keda/*
build_kubernetes
