// The scripts of the pods that dump and restore a database. They run in the image of the database, in `sh`.

export const DUMPS_FOLDER = '/dumps'
/** The dumps of the schedule. */
export const DAILY_FOLDER = `${DUMPS_FOLDER}/daily`
export const TERMINATION_LOG = '/dev/termination-log'
/** Without an agent nothing else deletes them. An agent keeps them for seven days. */
const DAILY_DAYS = 8

/**
 * The oldest daily dumps go while the next one may not find room, which takes a quarter more than the newest. `MAX_KB`:
 * what the claim asks for, because not every storage class has that limit.
 */
const MAKE_ROOM = `removed=
newest=$(find ${DUMPS_FOLDER} -name '*.dump' -exec ls -t {} + | head -n 1)
need=1024
[ -z "$newest" ] || { set -- $(du -k "$newest"); need=$(($1 * 5 / 4 + 1024)); }
room() {
  set -- $(df -Pk ${DUMPS_FOLDER} | tail -n 1)
  free=$4
  set -- $(du -sk ${DUMPS_FOLDER})
  left=$((MAX_KB - $1))
  [ "$left" -lt "$free" ] || left=$free
  echo "$left"
}
while [ "$(room)" -lt "$need" ]; do
  oldest=$(ls -tr ${DAILY_FOLDER}/*.dump 2> /dev/null | head -n 1)
  [ -n "$oldest" ] && [ "$oldest" != "$newest" ] || break
  rm "$oldest"
  removed="$removed $(basename "$oldest" .dump)"
done
`

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
${MAKE_ROOM}file="$FOLDER/$SNAPSHOT_ID.dump"
if ! words=$(pg_dump --format=custom --file="$file.new" 2>&1); then
  rm -f "$file.new"
  { echo "removed$removed"; printf '%s' "$words" | tail -c 600; } > ${TERMINATION_LOG}
  exit 1
fi
sync "$file.new"
mv "$file.new" "$file"
find ${DAILY_FOLDER} -name '*.dump' -mtime +${DAILY_DAYS} -delete 2> /dev/null || true
{ echo "removed$removed"; printf 'size_bytes %s' "$(wc -c < "$file")"; } > ${TERMINATION_LOG}
`
const REMOVED = /^removed((?: [\da-f-]{36})*)\n/
const SIZE = /^size_bytes (\d{1,15})$/

/** The last words of its pod. `removed`: the daily dumps that made room. */
export function readDumpWords(message: string): { removed: string[]; size_bytes: number; text: string } {
  const [line, names = ''] = REMOVED.exec(message) ?? ['']
  const text = message.slice(line.length).trim()
  return { removed: names.split(' ').filter(Boolean), size_bytes: Number(SIZE.exec(text)?.[1] ?? 0), text }
}

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

/** The file alone. */
export const SEND_SCRIPT = `set -eu
${FIND_FILE}exec cat "$file"
`
/** Takes a file of `SIZE` bytes: not every cluster can end the input of a command. */
export const RECEIVE_SCRIPT = `set -eu
umask 077
file="${DUMPS_FOLDER}/$SNAPSHOT_ID.dump"
head -c "$SIZE" > "$file.new"
sync "$file.new"
mv "$file.new" "$file"
`

export const PRUNE_SCRIPT = `set -eu
for id in $SNAPSHOT_IDS; do find ${DUMPS_FOLDER} -name "$id.dump" -delete; done
`
