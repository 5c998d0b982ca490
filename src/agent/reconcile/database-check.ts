// A command that tries a database that the deployment attaches by a variable. It runs in the environment of a revision,
// and so from where the application runs, and uses the driver of the application if there is one. Its exit code says
// what it found. It prints nothing: each part of the address may be a secret. Pure.
import { createHash } from 'node:crypto'

export const CHECK_CODES = { unreachable: 70, refused: 71, noAddress: 72, noTool: 73 }
/** A database may be about to start. */
const PATIENCE_SECONDS = 20
export const CHECK_SECONDS = 60

const PORTS = '{"postgres":5432,"postgresql":5432,"mysql":3306,"redis":6379,"rediss":6379,"mongodb":27017}'

/** Postgres answers the question whether it speaks TLS with one letter. */
const python = (patience: number) => `
import json, os, socket, sys, time
from urllib.parse import urlsplit
url = os.environ["SLIPWAY_ATTACHED"]
try:
  at = urlsplit(url)
  scheme = at.scheme.split("+")[0]
  host, port = at.hostname, at.port or json.loads('${PORTS}').get(scheme)
except ValueError:
  sys.exit(${CHECK_CODES.noAddress})
if not host or not port: sys.exit(${CHECK_CODES.noAddress})
is_postgres = scheme.startswith("postgres")
def attempt():
  try:
    with socket.create_connection((host, port), 5) as s:
      if is_postgres:
        s.sendall(bytes([0, 0, 0, 8, 4, 210, 22, 47]))
        if s.recv(1) not in (b"S", b"N"): return ${CHECK_CODES.unreachable}
  except OSError: return ${CHECK_CODES.unreachable}
  if not is_postgres: return 0
  for name in ("psycopg", "psycopg2"):
    try: driver = __import__(name)
    except Exception: continue
    try: driver.connect("postgresql" + url[url.index("://"):], connect_timeout=5).close()
    except Exception: return ${CHECK_CODES.refused}
    return 0
  return 0
end = time.time() + ${patience}
code = attempt()
while code and time.time() < end:
  time.sleep(1)
  code = attempt()
sys.exit(code)
`

const node = (patience: number) => `
const net = require("net"), address = require("process").env.SLIPWAY_ATTACHED, end = Date.now() + ${patience * 1000}
let at
try { at = new URL(address) } catch { process.exit(${CHECK_CODES.noAddress}) }
const scheme = at.protocol.replace(/[+:].*/, ""), host = at.hostname.replace(/^\\[|\\]$/g, "")
const port = Number(at.port || ${PORTS}[scheme]), isPostgres = scheme.startsWith("postgres")
if (!host || !port) process.exit(${CHECK_CODES.noAddress})
const reach = () => new Promise(resolve => {
  const socket = net.connect({ host, port, timeout: 5000 })
  const settle = code => { socket.destroy(); resolve(code) }
  socket.on("error", () => settle(${CHECK_CODES.unreachable})).on("timeout", () => settle(${CHECK_CODES.unreachable}))
  socket.on("close", () => settle(${CHECK_CODES.unreachable}))
  socket.on("connect", () => isPostgres ? socket.write(Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])) : settle(0))
  socket.on("data", text => settle(/^[SN]/.test(text.toString("latin1")) ? 0 : ${CHECK_CODES.unreachable}))
})
const enter = async () => {
  let pg
  try { pg = require("pg") } catch { return 0 }
  const client = new pg.Client({ connectionString: address, connectionTimeoutMillis: 5000 })
  client.on("error", () => {})
  try { await client.connect(); await client.end(); return 0 } catch { return ${CHECK_CODES.refused} }
}
const attempt = async () => (await reach()) || (isPostgres ? enter() : 0)
const run = async () => {
  let code = await attempt()
  for (; code && Date.now() < end; code = await attempt()) await new Promise(go => setTimeout(go, 1000))
  process.exit(code)
}
run()
`

/** For an image without both: whether anything accepts connections there. */
const shell = (
  patience: number,
) => `rest=\${SLIPWAY_ATTACHED#*://}; rest=\${rest%%[/?]*}; at=\${rest##*@}; host=\${at%:*}; port=\${at##*:}
case $at in *:*) ;; *) exit ${CHECK_CODES.noTool} ;; esac
if command -v nc >/dev/null 2>&1; then try() { nc -z -w 5 "$host" "$port" >/dev/null 2>&1; }
elif command -v bash >/dev/null 2>&1; then
  try() { timeout 5 bash -c 'exec 3<>"/dev/tcp/$0/$1"' "$host" "$port" >/dev/null 2>&1; }
else exit ${CHECK_CODES.noTool}; fi
n=0; until try; do n=$((n + 1)); [ $n -le ${patience} ] || exit ${CHECK_CODES.unreachable}; sleep 1; done`

const quote = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`

/** `variable`: its name has letters, digits and underscores. */
export const checkCommand = (variable: string, patience = PATIENCE_SECONDS): string => `
SLIPWAY_ATTACHED=\${${variable}-}; export SLIPWAY_ATTACHED
case $SLIPWAY_ATTACHED in *://*) ;; *) exit ${CHECK_CODES.noAddress} ;; esac
if command -v python3 >/dev/null 2>&1; then exec python3 -c ${quote(python(patience))}; fi
if command -v node >/dev/null 2>&1; then exec node -e ${quote(node(patience))}; fi
${shell(patience)}`

/** The check of a revision has an id of its own, which the next agent finds again. */
export function checkIdOf(revision_id: string): string {
  const hash = createHash('sha256').update(`${revision_id}/attached_database`).digest('hex')
  return [
    hash.slice(0, 8),
    hash.slice(8, 12),
    `4${hash.slice(13, 16)}`,
    `8${hash.slice(17, 20)}`,
    hash.slice(20, 32),
  ].join('-')
}

export type CheckResult = { failure: string } | { warning: string } | null

/** `exit_code`: null if nothing is left that tells. */
export function describeCheck(variable: string, exit_code: number | null): CheckResult {
  const at = `The attached database of \`${variable}\``
  switch (exit_code) {
    case 0:
      return null
    case CHECK_CODES.unreachable:
      return {
        failure:
          `${at} does not answer from where the application runs. Check the host and the port in it, and whether a ` +
          'firewall lets this machine through.',
      }
    case CHECK_CODES.refused:
      return {
        failure:
          `${at} answers, but refuses this login. Check the user, the password and the name of the database in it, ` +
          'and whether it demands TLS.',
      }
    case CHECK_CODES.noAddress:
      return {
        failure:
          `\`attached_database\` names \`${variable}\`, which is not the address of a database. Set it as a secret, ` +
          'such as `postgresql://user:password@host:5432/name`.',
      }
    default:
      return { warning: `${at} was not checked: nothing that the application has can open a connection.` }
  }
}
