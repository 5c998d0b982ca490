# Shared by deploy.sh and preview.sh: settings, dry runs, and the secrets that go with each version of the Worker.
# shellcheck shell=bash

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Every secret of the Worker, and its address, goes with each upload. A version inherits what it is not given from the
# newest upload, deployed or not: a production deploy without DATABASE_URL would take over the last preview's database.
worker_secrets=(DATABASE_URL DATABASE_SYSTEM_URL SEALING_KEYS PUBLIC_URL)

dry_run=false
if [[ ${1:-} == --dry-run ]]; then
  dry_run=true
  shift
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# In a dry run, commands are printed here, even where their output is captured.
exec 3>&1

fail() {
  printf '%s\n' "$2" >&2
  exit "$1"
}

# need NAME HOW: fails without that environment variable. In a dry run its name replaces a missing value.
need() {
  if $dry_run; then
    export "$1=${!1:-$1}"
  elif [[ -z ${!1:-} ]]; then
    fail 2 "$1 is not set: $2"
  fi
}

need_cloudflare() {
  local permissions='"Workers Scripts: Edit" and "Workers R2 Storage: Edit"'
  need CLOUDFLARE_API_TOKEN "create a token with $permissions in the Cloudflare dashboard and export it."
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

# Creates the bucket of wrangler.toml, without which Cloudflare accepts no version. Only "already exists" (10004) is
# ignored, so a token without the permission fails before anything is changed.
make_bucket() {
  local answer bucket
  bucket=$(sed -n 's/^bucket_name *= *"\(.*\)".*/\1/p' wrangler.toml)
  answer=$(run npx wrangler r2 bucket create "$bucket" 2>&1) || [[ $answer == *'[code: 10004]'* ]] || fail 1 "$answer"
}

# ship COMMAND…: runs wrangler with the secrets in a file that only this user can read, deleted when the script ends.
ship() {
  local file=$work/secrets.json json='JSON.stringify(process.env, process.argv.slice(1))'
  $dry_run || (umask 077 && node -p "$json" "${worker_secrets[@]}" >"$file")
  run npx wrangler "$@" --secrets-file "$file"
}
