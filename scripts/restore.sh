#!/usr/bin/env bash
# restore.sh FILE: reads a dump of backup.sh into the new database of DATABASE_OWNER_URL, and applies newer migrations.
. "$(dirname "$0")/postgres.sh"
file=${1:-}
[[ -r $file ]] || fail 'Usage: scripts/restore.sh FILE'

# Creates the roles where the server does not have them.
npm run --silent db:migrate
[[ $(query 'set role slipway_system; select count(*) from organizations') == 0 ]] ||
  fail 'The database has organizations. Restore into a new database.'

# Functions belong to slipway_system. Only a member that inherits its rights can give them their owner and their grants:
# without, pg_restore succeeds, and everybody may call them.
release() {
  query "revoke create on schema public from slipway_system;
    grant slipway_system to current_user with inherit false"
}
trap release EXIT
query "grant slipway_system to current_user with inherit true;
  grant create on schema public to slipway_system"
pg_restore --dbname="$PGDATABASE" --clean --if-exists --single-transaction --exit-on-error "$file"
trap - EXIT
release
npm run --silent db:migrate
