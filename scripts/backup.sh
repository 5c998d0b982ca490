#!/usr/bin/env bash
# backup.sh FILE: writes a dump of the database of DATABASE_OWNER_URL that restore.sh reads.
. "$(dirname "$0")/postgres.sh"
file=${1:-}
[[ -n $file ]] || fail 'Usage: scripts/backup.sh FILE'

# Row-level security hides every row from the owner. slipway_system sees all rows.
query 'grant select on all sequences in schema drizzle to slipway_system'
umask 077
pg_dump --format=custom --role=slipway_system --enable-row-security --file="$file.partial"
mv "$file.partial" "$file"
