# What backup.sh and restore.sh share: the client programs of Postgres read the address from the environment, because
# every user of the machine can read a command line.
# shellcheck shell=bash

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
  printf '%s\n' "$1" >&2
  exit 1
}

[[ -n ${DATABASE_OWNER_URL:-} ]] || fail 'DATABASE_OWNER_URL is not set. Set it to the address of the owner.'
for program in psql pg_dump pg_restore; do
  command -v "$program" >/dev/null || fail "$program is not installed. Install the client programs of your Postgres."
done

while IFS='=' read -r name value; do export "$name=$value"; done < <(node -e '
  const { hostname, port, username, password, pathname, searchParams } = new URL(process.env.DATABASE_OWNER_URL)
  const encoded = { PGUSER: username, PGPASSWORD: password, PGDATABASE: pathname.slice(1) }
  for (const [name, value] of Object.entries(encoded)) console.log(`${name}=${decodeURIComponent(value)}`)
  console.log(`PGHOST=${hostname.replace(/^\[|\]$/g, "")}`)
  if (port) console.log(`PGPORT=${port}`)
  for (const [name, value] of searchParams)
    if (/^(sslmode|sslrootcert|host)$/.test(name)) console.log(`PG${name.toUpperCase()}=${value}`)
')

query() { psql --quiet --no-psqlrc --tuples-only --no-align --set ON_ERROR_STOP=1 --command "$1"; }
