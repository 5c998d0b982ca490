#!/usr/bin/env bash
# Plays docs/operate/one-machine.md: `slipway up` on a machine with systemd, Caddy, and Pebble as its authority.
# It needs root, Linux and systemd, and works in namespaces and a folder of its own, where `public/inside.sh` runs. It
# runs with Debian's Caddy and with a new one.
. "$(dirname "$0")/../support/trial.sh"

[[ $(id -u) -eq 0 && $(uname) == Linux ]] || skip_all 'everything: needs root on Linux'
need systemd unshare nsenter ip curl openssl pebble pebble-challtestsrv || skip_all "everything: $missing"

debian_caddy=$CACHE/caddy-debian/usr/bin/caddy
if [[ ! -x $debian_caddy ]] && $install; then
  (cd "$work" && apt-get download caddy && dpkg -x caddy_*.deb "$CACHE/caddy-debian") >/dev/null 2>&1 || true
fi
need caddy || note "$missing"

machine=
stop_machine() {
  [[ -n $machine ]] || return 0
  kill -KILL "$machine" 2>/dev/null || true
  until_true 10 has_ended "$machine" || true
  machine=
}
at_end stop_machine

try() { # NAME CADDY
  [[ -x $2 ]] || { skipped "$1 is not installed: --install"; return; }
  say "---- $1: $(HOME=$work "$2" version | cut -d' ' -f1)"
  local folder=$work/$1 counts
  mkdir -p "$folder/shared"
  unshare -p -m -u -i -n -f bash test/proof/trials/public/machine.sh "$folder" "$2" >"$folder/machine.log" 2>&1 &
  local outer=$!
  until_true 20 pgrep -P $outer || fail "$(cat "$folder/machine.log")"
  machine=$(pgrep -P $outer)
  inside() {
    local path=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    nsenter -t "$machine" -p -m -u -i -n --wd=/ env -i PATH=$path HOME=/root "$@"
  }
  until_true 30 inside systemctl is-system-running || inside systemctl --failed --no-pager
  inside bash /opt/slipway/test/proof/trials/public/inside.sh 2>&1 | tee "$folder/log"
  counts=$(grep -cE '^passed ' "$folder/log" || true)
  passed_count=$((passed_count + counts))
  counts=$(grep -cE '^FAILED ' "$folder/log" || true)
  failed_count=$((failed_count + counts))
  stop_machine
}
try debian "$debian_caddy"
try new "$CACHE/bin/caddy"
