# Runs on the machine that test/proof/trials/public.sh has started.
# shellcheck shell=bash
set -uo pipefail
cd /opt/slipway
NODE=/opt/slipway/node_modules/node/bin/node
DOMAIN=slipway.example.com APPS=apps.example.net

say() { printf '%s\n' "$*"; }
note() { printf '        %s\n' "$*"; }
passed() { say "passed  $*"; }
failed() { say "FAILED  $*"; }
expect() { if [[ $2 == "$3" ]]; then passed "$1"; else failed "$1: expected $3, got $2"; fi; }
check() {
  if "${@:2}" >/tmp/output 2>&1; then passed "$1"; else
    failed "$1"
    sed 's/^/        /' /tmp/output | tail -20
  fi
}
until_true() {
  local end=$((SECONDS + $1))
  until "${@:2}" >/dev/null 2>&1; do ((SECONDS < end)) || return 1; sleep 0.2; done
}
die() {
  failed "$*"
  journalctl --no-pager -n 40 -u slipway -u slipway-agent -u slipway-proxy | cut -c1-300 | sed 's,^,        ,'
  exit 1
}
slipway() { "$NODE" src/host/main.ts "$@"; }

# ---- an authority, DNS and a database

certs=/trial/certs
mkdir -p $certs
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=authority \
  -keyout $certs/root.key -out $certs/root.pem 2>/dev/null
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost \
  -keyout $certs/server.key 2>/dev/null |
  openssl x509 -req -days 2 -CA $certs/root.pem -CAkey $certs/root.key -CAcreateserial -out $certs/server.pem \
    -extfile <(echo 'subjectAltName=DNS:localhost,IP:127.0.0.1') 2>/dev/null
chmod 644 $certs/root.pem
cat >/trial/pebble.json <<JSON
{"pebble": {"listenAddress": "127.0.0.1:14000", "managementListenAddress": "127.0.0.1:15000", "httpPort": 80,
  "tlsPort": 443, "certificate": "$certs/server.pem", "privateKey": "$certs/server.key",
  "retryAfter": {"authz": 0, "order": 0}, "keyAlgorithm": "ecdsa",
  "profiles": {"default": {"description": "Short", "validityPeriod": 120}}}}
JSON
pebble-challtestsrv -defaultIPv4 203.0.113.7 -defaultIPv6 '' -dnsserver :53 \
  -http01 '' -https01 '' -tlsalpn01 '' -doh '' -management 127.0.0.1:8055 >/trial/dns.log 2>&1 &
# The authority has a view of its own, in which a host may lead elsewhere.
pebble-challtestsrv -defaultIPv4 203.0.113.7 -defaultIPv6 '' -dnsserver :54 \
  -http01 '' -https01 '' -tlsalpn01 '' -doh '' -management 127.0.0.1:8056 >/trial/authority-dns.log 2>&1 &
PEBBLE_VA_NOSLEEP=1 PEBBLE_WFE_NONCEREJECT=0 pebble -config /trial/pebble.json -dnsserver 127.0.0.1:54 \
  >/trial/pebble.log 2>&1 &
dns() { curl -s "http://127.0.0.1:8055/$1" -d "$2"; }
"$NODE" test/proof/trials/public/postgres.ts /var/lib/trial-postgres >/trial/database 2>/trial/database.log &
until_true 60 grep -q postgres: /trial/database || die "$(cat /trial/database.log)"

# ---- everything that is missing is reported at once

dns clear-a '{}' >/dev/null
dns set-default-ipv4 '{"ip": ""}' >/dev/null
slipway up --domain $DOMAIN --apps-domain $DOMAIN --email ops >/tmp/output 2>&1
expect 'faults are refused' $? 1
note "$(grep -c '^- ' /tmp/output) faults at once"
grep '^- ' /tmp/output | cut -c1-120 | sed 's/^/        /'
expect 'and nothing was changed' "$(ls -d /etc/slipway 2>/dev/null; id -u slipway 2>/dev/null)" ''
dns set-default-ipv4 '{"ip": "203.0.113.7"}' >/dev/null

# ---- up

options=(--domain $DOMAIN --apps-domain $APPS --email ops@example.com --organization Acme
  --database-url "$(cat /trial/database)" --acme-directory https://localhost:14000/dir --acme-root $certs/root.pem)
$NODE -e 'require("net").createServer().listen(80)' & other=$!
sleep 0.5
slipway up "${options[@]}" >/tmp/output 2>&1
expect 'a taken port is refused' "$(grep -c 'Port 80 is taken by' /tmp/output)" 1
kill $other
check '--check finds nothing missing' slipway up "${options[@]}" --check
# Only this authority is asked, and the archives come from this machine itself.
mkdir -p /etc/slipway && chmod 700 /etc/slipway
curl -sk https://127.0.0.1:15000/roots/0 >/trial/issuer.pem
chmod 644 /trial/issuer.pem
echo 'NODE_EXTRA_CA_CERTS=/trial/issuer.pem' >/etc/slipway/agent.env
chmod 600 /etc/slipway/agent.env
started=$(date +%s%N)
slipway up "${options[@]}" >/trial/up.log 2>&1 || die "slipway up: $(cat /trial/up.log)"
passed "slipway up: $((($(date +%s%N) - started) / 1000000)) ms"
sed 's/^/        /; s/lsv2_[A-Za-z0-9_]*/KEY/; s/#.*/#TOKEN/' /trial/up.log
API_KEY=$(sed -n 's/^API key *//p' /trial/up.log)
export URL=https://$DOMAIN API_KEY
units=(slipway slipway-agent slipway-proxy)
stamp() {
  find /etc/slipway /etc/slipway-proxy /etc/systemd/system/slipway* -type f -exec stat -c '%n %Y %s' {} +
  systemctl show -p ExecMainStartTimestampMonotonic "${units[@]}"
}
before=$(stamp)
slipway up >/tmp/output 2>&1
expect 'a second run needs no options and changes nothing' "$(head -1 /tmp/output)" 'Nothing to change.'
expect 'and restarts nothing' "$(stamp)" "$before"
slipway up --print >/tmp/output
sealing_keys=$(sed -n 's/^SEALING_KEYS=//p' /etc/slipway/control-plane.env)
expect '--print shows no secret' "$(grep -cF -e "$sealing_keys" -e owner:owner /tmp/output)" 0
expect 'only root reads the settings' "$(stat -c %a /etc/slipway /etc/slipway/*.env | sort -u | tr '\n' ' ')" '600 700 '
for unit in "${units[@]}"; do
  note "$unit: $(systemd-analyze security --no-pager $unit.service 2>/dev/null | grep -oi 'overall.*' || true)"
done
as_app() { setpriv --reuid=1900000001 --regid=1900000001 --clear-groups "$@"; }
expect 'an application cannot reach the admin socket' \
  "$(as_app curl -s --unix-socket /run/slipway-proxy/admin.sock http://localhost/config/ >/dev/null 2>&1; echo $?)" 7

# ---- an application

# The issuer of the authority: what clients trust.
ask() { # HOST PATH [curl options]
  curl -s --max-time 30 --cacert /trial/issuer.pem "https://$1$2" "${@:3}"
}
export CURL_CA_BUNDLE=/trial/issuer.pem
# shellcheck source=docs/shell.sh
. docs/shell.sh
# A page of that file calls the command line by this name, and this trial the program of the installation.
slipway() { "$NODE" src/host/main.ts "$@"; }
mkdir -p /tmp/app
echo '{"start_command": "node server.mjs"}' >/tmp/app/slipway.json
cp test/proof/trials/public/application.mjs /tmp/app/server.mjs
tar czf /tmp/app.tgz -C /tmp/app .
deploy() { # NAME [CUSTOM_HOST]
  local id upload archive config='{}'
  [[ -n ${2:-} ]] && config="{\"custom_url\": \"$2\"}"
  id=$(api POST /v2/deployments -d "{\"name\": \"$1\", \"source\": \"internal_source\",
    \"source_config\": $config, \"source_revision_config\": {}, \"secrets\": []}" | field id)
  upload=$(api POST "/v2/deployments/$id/upload-url")
  curl -s --cacert /trial/issuer.pem -T /tmp/app.tgz "$(field upload_url <<<"$upload")" >/dev/null
  archive=$(field object_path <<<"$upload")
  api PATCH "/v2/deployments/$id" -d "{\"source_revision_config\": {\"source_tarball_path\": \"$archive\"}}" >/dev/null
  wait_until_served "$id" >/dev/null
  echo "$id"
}
# Certificates live two minutes here. What another program writes, such as this, stays.
admin() { # METHOD PATH [curl options]
  curl -s --unix-socket /run/slipway-proxy/admin.sock -H 'Host;' -H 'Content-Type: application/json' -X "$1" \
    "http://x/config/$2" "${@:3}"
}
admin POST apps/tls/automation/renew_interval -d '"10s"' | grep . && failed 'the interval of renewals is not set'
systemctl restart slipway-proxy
check 'a proxy that restarts serves again, with what others wrote' until_true 20 \
  curl -sf --cacert /trial/issuer.pem -o /dev/null https://$DOMAIN/healthz
expect 'which the agent keeps' "$(admin GET apps/tls/automation/renew_interval)" '"10s"'
id=$(deploy shop shop.acme.example)
expect 'the deployment has its address' "$(api GET "/v2/deployments/$id" | field url)" https://shop.$APPS
started=$(date +%s%N)
answer=$(ask shop.$APPS / -o /dev/null -w '%{http_code} %{http_version}')
expect 'its first visit orders a certificate' "$answer" '200 2'
note "the first visit took $((($(date +%s%N) - started) / 1000000)) ms"
member() { "$NODE" -p "JSON.parse(fs.readFileSync(0))['$1']"; }
answer=$(ask shop.$APPS / -H 'X-Forwarded-For: 6.6.6.6' -H 'X-Real-IP: 6.6.6.6' --interface 203.0.113.7)
expect 'the application is told the client' "$(member x-real-ip <<<"$answer")" 203.0.113.7
expect 'and https' "$(member x-forwarded-proto <<<"$answer")" https
expect 'and nothing that the client wrote' "$(grep -c '6\.6\.6\.6' <<<"$answer")" 0
expect 'http redirects' "$(curl -s -o /dev/null -w '%{http_code} %{redirect_url}' "http://shop.$APPS/a?b=c")" \
  "308 https://shop.$APPS/a?b=c"
hsts() { ask shop.$APPS "$1" -o /dev/null -D - | tr -d '\r' | sed -n 's/^strict-transport-security: //p'; }
expect 'HSTS is on' "$(hsts /)" max-age=31536000
expect 'unless the application sets its own' "$(hsts /hsts)" max-age=5
check 'Node speaks HTTP/2 to it' "$NODE" -e "
  const session = http2.connect('https://shop.$APPS', { ca: fs.readFileSync('/trial/issuer.pem') })
  session.request({ ':path': '/' }).on('response', headers => process.exit(headers[':status'] === 200 ? 0 : 1))"
truncate -s 1100M /trial/big
expect 'a body above the limit is 413 at once' \
  "$(ask shop.$APPS / -X POST -T /trial/big -o /dev/null -w '%{http_code}')" 413
expect 'and without a declared size too' \
  "$(ask shop.$APPS / -X POST -T - -o /dev/null -w '%{http_code}' </trial/big)" 413
truncate -s 500M /trial/big
expect 'a big upload arrives' "$(ask shop.$APPS / -X POST -T /trial/big)" 524288000
rm /trial/big
lag() { "$NODE" -e "
  const https = require('https'); let most = 0, count = 0
  https.get('https://shop.$APPS$1', { ca: fs.readFileSync('/trial/issuer.pem') }, answer => answer.on('data', data => {
    for (const [, at] of String(data).matchAll(/(\d{13})/g)) { most = Math.max(most, Date.now() - at); count++ }
  }).on('end', () => {
    console.log(count === 5 && most < 100 ? 'in time' : count + ' in ' + most)
    console.error('        the slowest event took ' + most + ' ms')
  }))"; }
expect 'events are not buffered' "$(lag /events)" 'in time'
expect 'nor lines of JSON' "$(lag /lines)" 'in time'
expect 'a client that sends its headers slowly is dropped' "$("$NODE" -e "
  const since = Date.now()
  const socket = tls.connect({ host: '127.0.0.1', port: 443, servername: 'shop.$APPS', rejectUnauthorized: false,
    ALPNProtocols: ['http/1.1'] }, () => socket.write('GET / HTTP/1.1\r\nHost: sh'))
  socket.on('close', () => console.log(Date.now() - since < 35000 ? 'dropped' : 'late'))")" dropped

# ---- custom hosts

certified() { # HOST: whether a handshake succeeds
  openssl s_client -connect 127.0.0.1:443 -servername "$1" -verify_hostname "$1" -verify_return_error \
    -CAfile /trial/issuer.pem </dev/null >/dev/null 2>&1 && echo yes || echo no
}
expect 'an unverified host has no certificate' "$(certified shop.acme.example)" no
expect 'nor is it served under the certificate of another' \
  "$(ask shop.$APPS / -H 'Host: shop.acme.example' -o /dev/null -w '%{http_code}')" 404
record=$(api GET /v2/custom-hosts | field 'resources[0].record.value')
dns set-txt "{\"host\": \"_slipway.shop.acme.example.\", \"value\": \"$record\"}"
api POST /v2/custom-hosts/shop.acme.example/verification | grep -q verified_at || failed 'the verification'
verified() { [[ $(ask shop.acme.example / -o /dev/null -w '%{http_code}') == 200 ]]; }
check 'once it is verified, it is served' until_true 30 verified
expect 'a name of no deployment has no certificate' "$(certified nobody.$APPS)" no
expect 'nor has a name of the loopback' "$(certified shop.localhost)" no
expect 'nor has a foreign name' "$(certified www.example.org)" no

# ---- a host that does not verify: it leads here, and the authority does not reach it

deploy lost lost.acme.example >/dev/null
record=$(api GET /v2/custom-hosts | field 'resources.find(({ host }) => host === "lost.acme.example").record.value')
dns set-txt "{\"host\": \"_slipway.lost.acme.example.\", \"value\": \"$record\"}"
api POST /v2/custom-hosts/lost.acme.example/verification >/dev/null
sleep 3
dns add-a '{"host": "lost.acme.example", "addresses": ["203.0.113.99"]}'
count() { grep -c "$1" /trial/pebble.log; }
before=$(count lost.acme.example)
for time in 1 2 3; do certified lost.acme.example >/dev/null; done
expect 'a host that leads elsewhere is never ordered' "$(count lost.acme.example)" "$before"
# It leads here, and the authority does not reach it. The visit waits for the attempts of one order.
dns clear-a '{"host": "lost.acme.example"}'
curl -s http://127.0.0.1:8056/add-a -d '{"host": "lost.acme.example", "addresses": ["192.0.2.99"]}'
timeout 230 bash -c "$(declare -f certified); certified lost.acme.example" >/trial/lost &
asking=$!
sleep 2
expect 'others are served meanwhile' "$(ask shop.$APPS / -o /dev/null -w '%{http_code}')" 200

# ---- renewal

serial() {
  openssl s_client -connect 127.0.0.1:443 -servername "shop.$APPS" </dev/null 2>/dev/null | openssl x509 -noout -serial
}
first=$(serial)
renewed() { [[ $(serial) != "$first" ]]; }
check 'a certificate is renewed before it expires' until_true 120 renewed
expect 'and still serves' "$(ask shop.$APPS / -o /dev/null -w '%{http_code}')" 200
wait $asking
expect 'a host that the authority does not reach has no certificate' "$(cat /trial/lost)" no
# Certificates of others are renewed meanwhile, so only what names the host is counted.
seen=$(count lost.acme.example)
expect 'it was tried' "$((seen > before))" 1
for time in $(seq 30); do certified lost.acme.example >/dev/null; done
expect 'thirty more visits of it ask the authority for nothing' "$(count lost.acme.example)" "$seen"
note "lines of the authority about it: $seen"

# ---- restarts

socket() { # keeps a WebSocket and prints what comes
  "$NODE" -e "
    const socket = tls.connect({ host: '127.0.0.1', port: 443, servername: 'shop.$APPS', rejectUnauthorized: false,
      ALPNProtocols: ['http/1.1'] }, () => socket.write('GET /socket HTTP/1.1\r\nHost: shop.$APPS\r\n' +
      'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n' +
      'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n'))
    socket.once('data', () => setInterval(() => socket.write('ping'), 200))
    socket.on('data', data => console.log(String(data).trim()))
    socket.on('close', () => { console.log('closed'); process.exit() })" >/trial/socket.log 2>&1 &
  socket_pid=$!
}
socket
check 'a WebSocket opens' until_true 10 grep -q ping /trial/socket.log
load() { # asks all the time, and writes what was not 200
  while [[ -e /trial/loading ]]; do
    ask shop.$APPS / -o /dev/null -w '%{http_code}\n'
    ask $DOMAIN /healthz -o /dev/null -w '%{http_code}\n'
  done | sort | uniq -c >/trial/load.log
}
touch /trial/loading
load &
loading=$!
sleep 1
systemctl restart slipway-agent
sleep 3
systemctl restart slipway
sleep 3
deploy second >/dev/null
check 'another deployment is served' ask second.$APPS / -f
rm /trial/loading
wait $loading
statuses=$(awk '{print $2}' /trial/load.log)
expect 'nobody noticed the restarts of agent and control plane, nor the new deployment' "$statuses" 200
note "requests: $(tr -s ' ' </trial/load.log)"
expect 'the WebSocket is still open' "$(grep -c closed /trial/socket.log)" 0
kill $socket_pid
systemctl kill --signal=KILL slipway-proxy
check 'a proxy that was killed serves again' until_true 20 ask shop.$APPS / -f
systemctl stop slipway-agent
systemctl kill --signal=KILL slipway-proxy
check 'also while the agent is away' until_true 20 ask shop.$APPS / -f
systemctl start slipway-agent
admin DELETE apps/http/servers/slipway_https | grep . && failed 'the configuration cannot be changed'
check 'what another program removes from the configuration comes back' until_true 30 ask shop.$APPS / -f
api DELETE "/v2/deployments/$id" >/dev/null
gone() { [[ $(ask shop.$APPS / -o /dev/null -w '%{http_code}') == 404 ]]; }
check 'a deleted deployment is not served' until_true 30 gone

# ---- down

slipway down >/tmp/output 2>&1
active=$(systemctl is-active "${units[@]}" | sort -u)
expect 'slipway down stops everything' "$active, $(pgrep -f 'server.mjs|router-main' | wc -l) left" 'inactive, 0 left'
slipway up >/tmp/output 2>&1
check 'slipway up starts it again, with its data' ask second.$APPS / -f
exit 0
