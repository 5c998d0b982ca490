#!/usr/bin/env bash
# Installs what `npm run test:containers` needs, on Debian and Ubuntu.
set -euo pipefail

as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi; }

as_root apt-get update
as_root apt-get install --yes --no-install-recommends busybox-static podman runc skopeo docker-registry
