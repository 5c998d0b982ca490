#!/usr/bin/env bash
# Plays docs/operate/installation.md on this machine: units and a reverse proxy.
# It needs root, and works in a folder of its own.
. "$(dirname "$0")/../support/trial.sh"

[[ $(id -u) -eq 0 ]] || skip_all 'everything: needs root, as the agent does'
need psql || skip_all "everything: $missing"
PATH=$PATH:$(echo /usr/lib/postgresql/*/bin)
at_end wait
at_end stop_started
started=()
stop_started() {
  [[ -d $work/agent ]] && stop_agent
  for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
}

# block PAGE LANGUAGE NUMBER: a block of the page, with the folders of this trial.
block() {
  page_block "$@" | sed "s#/opt/slipway#$PWD#g
    s#/var/backups/slipway#$work/backups#g
    s#/var/lib/slipway/uploads#$work/uploads#g
    s#/var/lib/slipway-agent#$work/agent#g
    s#/etc/slipway#$work/etc#g
    s#/etc/caddy#$work/caddy#g"
}
as_nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
mib() { awk '/^VmRSS/ { printf "%d MiB", $2 / 1024 }' "/proc/$1/status"; }

# ---- units

print_unit() { # NAME: as `slipway up` writes it
  "$NODE" src/host/main.ts up --print --domain slipway.example.com --apps-domain apps.example.net \
    --email ops@example.com | awk -v heading="/$1.service (" '/^# \// { printing = index($0, heading); next } printing'
}
if need systemd-analyze; then
  for name in slipway slipway-agent; do
    unit=$work/$name.service
    print_unit "$name" | sed 's/^User=slipway/User=daemon/' >"$unit"
    problems=$(systemd-analyze verify --man=no "$unit" 2>&1 | grep -F "$name.service" || true)
    expect "systemd-analyze finds nothing in $name.service" "$problems" ''
    note "$(systemd-analyze security --offline=yes "$unit" 2>/dev/null | grep -i 'overall exposure' || true)"
  done
else skipped "units: $missing"; fi

# ---- Postgres

version=$(postgres --version 2>/dev/null | grep -oE '[0-9]+' | head -1 || true)
if ((${version:-0} < 16)); then
  skip_all "all the rest: needs the programs of Postgres 16 or newer on PATH, found ${version:-none}"
fi
new_server() { # NAME PORT: starts a server with an owner who is no superuser, and prints the owner's address
  local data=$work/$1 port=$2
  install -d -o 65534 -g 65534 -m 700 "$data"
  as_nobody initdb -D "$data/db" -U postgres --auth=trust --encoding=UTF8 --locale=C >/dev/null
  as_nobody pg_ctl -D "$data/db" -l "$data/log" -w start \
    -o "-p $port -c listen_addresses=127.0.0.1 -c unix_socket_directories=$data" >/dev/null
  psql -q -h 127.0.0.1 -p "$port" -U postgres -c "create role owner login createrole password 'owner'" \
    -c 'create database slipway owner owner'
  echo "postgres://owner:owner@127.0.0.1:$port/slipway"
}
server_pid() { head -1 "$work/$1/db/postmaster.pid"; }

# ---- the installation

owner=$(new_server first 15432)
started+=("$(server_pid first)")
mkdir -p "$work/etc" "$work/caddy" "$work/agent"
install -d -o 65534 -g 65534 -m 700 "$work/uploads"
start_control_plane() { # OWNER_ADDRESS PORT SEALING_KEYS
  local owner=$1
  DATABASE_OWNER_URL=$owner npm run --silent db:logins >"$work/etc/control-plane.env"
  cat >>"$work/etc/control-plane.env" <<ENV
SEALING_KEYS=$3
PUBLIC_URL=http://127.0.0.1:$2
APPS_DOMAIN=apps.example.net
TRUSTED_PROXIES=127.0.0.1
UPLOADS_DIR=$work/uploads
ENV
  echo "DATABASE_OWNER_URL=$owner" >"$work/etc/owner.env"
  # Runs like the unit: without privileges, and without a way to get any.
  (set -a && . "$work/etc/control-plane.env" && PORT=$2 exec setpriv --reuid=65534 --regid=65534 --clear-groups \
    --no-new-privs --bounding-set=-all --inh-caps=-all "$NODE" src/host/main.ts start >"$work/control-plane.log" 2>&1) &
  control_plane=$!
  started+=("$control_plane")
  until_true 60 curl -sf -o "$work/ready" "http://127.0.0.1:$2/readyz" || fail "$(cat "$work/control-plane.log")"
}
capabilities=$(print_unit slipway-agent | sed -n 's/^CapabilityBoundingSet=//p' | tr 'A-Z' 'a-z' |
  sed 's/cap_/+/g; s/ /,/g')
start_agent() { # CONTROL_PLANE_PORT
  (SLIPWAY_URL=http://127.0.0.1:$1 SLIPWAY_LISTENER_KEY=$listener_key APPS_DOMAIN=apps.example.net \
    TRUSTED_PROXIES=127.0.0.1 AGENT_APPS_HOME=$work/apps \
    exec setpriv --no-new-privs "--bounding-set=-all,$capabilities" "$NODE" \
    src/agent/main.ts --home "$work/agent" --port "$router_port" >>"$work/agent.log" 2>&1) &
  agent=$!
}
stop_agent() {
  [[ -n ${agent:-} ]] || return 0
  kill "$agent" 2>/dev/null && wait "$agent" || true
  SLIPWAY_URL=http://127.0.0.1:1 SLIPWAY_LISTENER_KEY=none AGENT_APPS_HOME=$work/apps \
    timeout -s TERM 10 "$NODE" src/agent/main.ts \
    --home "$work/agent" --stop >/dev/null 2>&1 || true
}

DATABASE_OWNER_URL=$owner npm run --silent db:migrate >/dev/null
sealing_keys=k1:$(node -p "crypto.randomBytes(32).toString('base64url')")
port=18787 router_port=18788
start_control_plane "$owner" "$port" "$sealing_keys"
size=$(psql -At "$owner" -c 'select pg_size_pretty(pg_database_size(current_database()))')
note "database after the migrations: $size"
note "control plane at its start: $(mib "$control_plane")"
keys=$(. "$work/etc/control-plane.env" && DATABASE_SYSTEM_URL=$DATABASE_SYSTEM_URL \
  npm run --silent bootstrap -- --organization Acme --platform-listener machine)
mapfile -t found < <(grep -oE 'slw_[A-Za-z0-9_-]+' <<<"$keys")
listener_key=${found[1]}
export URL=http://127.0.0.1:$port API_KEY=${found[0]}
. docs/shell.sh
start_agent "$port"

mkdir "$work/app"
echo '{"start_command": "node server.mjs"}' >"$work/app/slipway.json"
cat >"$work/app/server.mjs" <<'APP'
import { createServer } from 'node:http'
createServer((req, res) => res.end(JSON.stringify({ ...req.headers, pid: process.pid }))).listen(process.env.PORT)
APP
tar czf "$work/app.tgz" -C "$work/app" .
id=$(api POST /v2/deployments -d '{"name": "shop", "source": "internal_source", "source_config": {},
  "source_revision_config": {}, "secrets": [{"name": "TOKEN", "value": "hush-hush"}]}' | field id)
upload=$(api POST "/v2/deployments/$id/upload-url")
curl -s -T "$work/app.tgz" "$(field upload_url <<<"$upload")" >/dev/null
archive=$(field object_path <<<"$upload")
api PATCH "/v2/deployments/$id" -d "{\"source_revision_config\": {\"source_tarball_path\": \"$archive\"}}" >/dev/null
wait_until_served "$id" >/dev/null || fail "$(cat "$work/agent.log")"
expect 'the deployment is reported below APPS_DOMAIN' "$(api GET "/v2/deployments/$id" | field url)" \
  https://shop.apps.example.net
ask_router() { curl -sf --max-time 5 -H 'Host: shop.apps.example.net' "http://127.0.0.1:$router_port/" "$@"; }
member() { node -p "JSON.parse(fs.readFileSync(0))['$1']"; }
app_pid=$(ask_router | member pid)
passed 'the agent runs it with the capabilities of its unit'

# ---- a router that is killed

router() { node -p "JSON.parse(fs.readFileSync('$work/agent/router.json')).identity.pid"; }
note "agent: $(mib "$agent"), router: $(mib "$(router)"), application: $(mib "$app_pid")"
for time in 1 2 3; do
  kill -KILL "$(router)"
  before=$(date +%s%N)
  until_true 10 ask_router -o "$work/answer" || fail 'a router that is killed comes back'
  note "the router was back after $((($(date +%s%N) - before) / 1000000)) ms"
done

# ---- the reverse proxy

if need caddy; then
  https_port=18443
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj '/CN=*.apps.example.net' \
    -addext 'subjectAltName=DNS:*.apps.example.net' -keyout "$work/caddy/apps.example.net.key" \
    -out "$work/caddy/apps.example.net.pem" 2>/dev/null
  cat >"$work/caddy/Caddyfile" <<CADDYFILE
{
  admin off
  local_certs
  skip_install_trust
  http_port 18080
  https_port $https_port
  storage file_system $work/caddy/storage
}
CADDYFILE
  block operate/installation Caddyfile 1 | sed "s/:787$/:$port/; s/:788$/:$router_port/" >>"$work/caddy/Caddyfile"
  HOME=$work/caddy caddy validate --adapter caddyfile --config "$work/caddy/Caddyfile" >"$work/caddy/log" 2>&1 ||
    fail "$(cat "$work/caddy/log")"
  HOME=$work/caddy caddy run --adapter caddyfile --config "$work/caddy/Caddyfile" >"$work/caddy/log" 2>&1 &
  started+=($!)
  # The client has another address than the proxy.
  through() { # HOST PATH [curl options]
    curl -sfk --max-time 5 --interface 127.0.0.9 --resolve "*:$https_port:127.0.0.1" "https://$1:$https_port$2" "${@:3}"
  }
  until_true 30 through shop.apps.example.net / -o "$work/answer" || fail "$(cat "$work/caddy/log")"
  forged=()
  for name in X-Forwarded-For X_Forwarded_For Forwarded X-Real-IP X-Forwarded-Host X-Forwarded-Proto; do
    forged+=(-H "$name: 6.6.6.6")
  done
  answer=$(through shop.apps.example.net / "${forged[@]}")
  expect 'the application is told the client' "$(member x-forwarded-for <<<"$answer")" '127.0.0.9, 127.0.0.1'
  expect 'and its address alone' "$(member x-real-ip <<<"$answer")" 127.0.0.9
  expect 'and https' "$(member x-forwarded-proto <<<"$answer")" https
  expect 'and the host' "$(member x-forwarded-host <<<"$answer")" "shop.apps.example.net:$https_port"
  expect 'and nothing that the client wrote' "$(grep -c '6\.6\.6\.6' <<<"$answer" || true)" 0
  expect 'a name that nobody has is 404' \
    "$(through nobody.apps.example.net / -o /dev/null -w '%{http_code}' || true)" 404
  through slipway.example.com /healthz >/dev/null && passed 'the control plane answers through the proxy'
else skipped "the reverse proxy: $missing"; fi

note "control plane at the end: $(mib "$control_plane"), agent: $(mib "$agent"), router: $(mib "$(router)")"
note "the agent's home: $(du -sh "$work/agent" | cut -f1)"
