# What both ways of shipping share: settings, dry runs, and the secrets that travel with a version of the Worker.
# shellcheck shell=bash

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Every secret of the Worker, and its address, goes with each upload. A version inherits what it is not given from the newest upload, deployed
# or not: a production deploy without DATABASE_URL would take over the last preview's database.
worker_secrets=(DATABASE_URL DATABASE_SYSTEM_URL SEALING_KEYS PUBLIC_URL)

dry_run=false
if [[ ${1:-} == --dry-run ]]; then
  dry_run=true
  shift
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A dry run's commands reach the terminal even where their output would have been captured.
exec 3>&1

fail() {
  printf '%s\n' "$2" >&2
  exit "$1"
}

# need NAME HOW: a setting of the environment. In a dry run its name stands in for a value that is not there.
need() {
  if $dry_run; then
    export "$1=${!1:-$1}"
  elif [[ -z ${!1:-} ]]; then
    fail 2 "$1 is not set: $2"
  fi
}

need_cloudflare() {
  need CLOUDFLARE_API_TOKEN 'make a token that may edit Workers Scripts and Workers R2 Storage in the Cloudflare dashboard and export it.'
  need CLOUDFLARE_ACCOUNT_ID 'copy the account id from the Cloudflare dashboard and export it.'
}

run() {
  if $dry_run; then
    local line
    printf -v line '%q ' "$@"
    printf '%s\n' "${line% }" >&3
  else
    "$@"
  fi
}

# The bucket of wrangler.toml, without which no version is taken: made when it is not there. Only Cloudflare's own "already
# exists" counts as presence, so a token that may not is found out before anything is changed.
make_bucket() {
  local answer bucket
  bucket=$(sed -n 's/^bucket_name *= *"\(.*\)".*/\1/p' wrangler.toml)
  answer=$(run npx wrangler r2 bucket create "$bucket" 2>&1) || [[ $answer == *'[code: 10004]'* ]] || fail 1 "$answer"
}

# ship COMMAND…: runs wrangler with the secrets in a file that only this user can read, gone when the script ends.
ship() {
  local file=$work/secrets.json json='JSON.stringify(process.env, process.argv.slice(1))'
  $dry_run || (umask 077 && node -p "$json" "${worker_secrets[@]}" >"$file")
  run npx wrangler "$@" --secrets-file "$file"
}
