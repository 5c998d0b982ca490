// The scripts of the pods that dump and restore a database. They run in the image of the database, in `sh`.

export const DUMPS_FOLDER = '/dumps'
/** The dumps of the schedule. */
export const DAILY_FOLDER = `${DUMPS_FOLDER}/daily`
export const TERMINATION_LOG = '/dev/termination-log'
/** Without an agent nothing else deletes them. An agent keeps them for seven days. */
const DAILY_DAYS = 8

/** A file that an earlier pod left half done is deleted a day later, because two dumps may run at a time. */
export const DUMP_SCRIPT = `set -eu
umask 077
mkdir -p "$FOLDER"
find ${DUMPS_FOLDER} -name '*.new' -mmin +1440 -delete
tries=0
until pg_isready -q; do
  tries=$((tries + 1))
  [ "$tries" -lt 60 ] || { echo 'The database is not ready.' >&2; exit 1; }
  sleep 1
done
file="$FOLDER/$SNAPSHOT_ID.dump"
pg_dump --format=custom --file="$file.new" || { rm -f "$file.new"; exit 1; }
sync
mv "$file.new" "$file"
find ${DAILY_FOLDER} -name '*.dump' -mtime +${DAILY_DAYS} -delete 2> /dev/null || true
printf 'size_bytes %s' "$(wc -c < "$file")" > ${TERMINATION_LOG}
`
const SIZE = /^size_bytes (\d{1,15})$/
export const sizeOfDump = (message: string): number => Number(SIZE.exec(message)?.[1] ?? 0)

const FIND_FILE = `file=$(find ${DUMPS_FOLDER} -name "$SNAPSHOT_ID.dump" | head -n 1)
[ -n "$file" ] || { echo 'The claim does not have the file of this snapshot any more.' >&2; exit 1; }
`

/**
 * Fills a second database, and gives it the name of the present one in one transaction. A database is renamed while
 * nobody is connected to it, so nobody may connect meanwhile.
 */
export const RESTORE_SCRIPT = `set -eu
${FIND_FILE}export PGOPTIONS='-c client_min_messages=warning'
sql() { psql --no-psqlrc --quiet --output=/dev/null --set=ON_ERROR_STOP=1 --dbname=postgres "$@"; }
new=\${PGDATABASE}_restored
old=\${PGDATABASE}_before
sql -c "drop database if exists $new with (force)" -c "drop database if exists $old with (force)"
sql -c "create database $new template template0"
pg_restore --dbname="$new" --no-owner --no-privileges --exit-on-error "$file"
trap 'exit 1' TERM INT
trap 'sql -c "alter database $PGDATABASE allow_connections true"' EXIT
sql -c "alter database $PGDATABASE allow_connections false"
sql -c "select pg_terminate_backend(pid) from pg_stat_activity where datname = '$PGDATABASE'"
sql --single-transaction \\
  -c "alter database $PGDATABASE rename to $old" -c "alter database $new rename to $PGDATABASE"
sql -c "drop database if exists $old with (force)"
`

/** Waits for the agent, which reads by commands of its own. */
export const READER_SCRIPT = `trap 'exit 0' TERM
sleep 3600 & wait
`
/** Writes a tar with the dump. */
export const READ_SCRIPT = `set -eu
${FIND_FILE}cd "$(dirname "$file")"
exec tar -cf - "$(basename "$file")"
`

export const PRUNE_SCRIPT = `set -eu
for id in $SNAPSHOT_IDS; do find ${DUMPS_FOLDER} -name "$id.dump" -delete; done
`
