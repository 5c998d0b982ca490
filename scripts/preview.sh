#!/usr/bin/env bash
# Keeps one preview per git branch: a database branch, a Worker version under an alias, a pull request comment.
#   scripts/preview.sh [--dry-run] up BRANCH [PR]
#   scripts/preview.sh [--dry-run] down BRANCH [PR]
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

action=${1:-} branch=${2:-} pr=${3:-}
if [[ $# -gt 3 || ! $action =~ ^(up|down)$ || -z $branch || ! $pr =~ ^([1-9][0-9]*)?$ ]]; then
  fail 2 'usage: scripts/preview.sh [--dry-run] up|down BRANCH [PR]'
fi

# A branch name can be any text. The slug is for people to read; the hash tells branches apart. The alias and the
# Worker's name, with a dash between them, share a DNS label of 63 characters.
worker=$(sed -n '/^name *=/ { s/.*"\(.*\)".*/\1/p; q; }' wrangler.toml)
hash=$(printf '%s' "$branch" | git hash-object --stdin | cut -c 1-8)
export LC_ALL=C
slug=$(printf '%s' "$branch" | tr '[:upper:]' '[:lower:]' | tr -cs 'a-z0-9' '-' | sed 's/^-//; s/^[0-9]/b&/')
slug=${slug:0:63-${#worker}-1-9}
slug=${slug%-}
alias=${slug:-b}-$hash
database=preview-$alias

neon() {
  run npx --yes neonctl@5.0.1 "$@" --project-id "$NEON_PROJECT_ID"
}

# Succeeds if the database branch exists. Only "not found" counts as absence: any other failure ends the script.
has_database() {
  local answer
  if ! answer=$(neon branches get "$database" 2>&1); then
    [[ $answer == *"Branch $database not found"* ]] || fail 1 "$answer"
    return 1
  fi
  [[ $dry_run == false ]]
}

# comment [--if-there]: writes stdin into this script's one comment on the pull request. It is found by its marker and
# its author: another author's comment with the same marker is never edited.
comment() {
  local marker='<!-- slipway:preview -->' body query id
  [[ -n $pr ]] || return 0
  body=$marker$'\n'$(cat)
  query=".comments[] | select(.viewerDidAuthor and (.body | startswith(\"$marker\"))) | .url | sub(\".*-\"; \"\")"
  id=$(run gh pr view "$pr" --json comments --jq "$query" | sed -n 1p)
  if $dry_run && [[ ${1:-} == --if-there ]]; then id=COMMENT_ID; fi
  if [[ -n $id ]]; then
    run gh api --silent --method PATCH "repos/{owner}/{repo}/issues/comments/$id" --field body=@- <<<"$body"
  elif [[ ${1:-} != --if-there ]]; then
    run gh pr comment "$pr" --body-file - <<<"$body"
  fi
}

# Hides connection strings in the log of GitHub Actions, also from the commands that this script runs.
mask() {
  [[ ${GITHUB_ACTIONS:-} != true ]] || $dry_run || printf '::add-mask::%s\n' "$@"
}

# New passwords for the two logins of the database: a branch inherits those of its parent.
make_logins() {
  local logins
  logins=$(run npm run --silent db:logins)
  DATABASE_URL=$(sed -n 's/^DATABASE_URL=//p' <<<"$logins")
  DATABASE_SYSTEM_URL=$(sed -n 's/^DATABASE_SYSTEM_URL=//p' <<<"$logins")
  export DATABASE_URL DATABASE_SYSTEM_URL
  mask "$DATABASE_URL" "$DATABASE_SYSTEM_URL"
}

up() {
  need_cloudflare
  for name in SEALING_KEYS WORKERS_SUBDOMAIN; do
    need "$name" 'export it, or add it to the GitHub environment "preview".'
  done
  # The Worker needs its address as a setting, before the version exists.
  export PUBLIC_URL=https://$alias-$worker.$WORKERS_SUBDOMAIN.workers.dev

  run npm run build:dashboard
  make_bucket
  has_database || neon branches create --name "$database" --no-secrets ${NEON_PARENT:+--parent "$NEON_PARENT"}
  DATABASE_OWNER_URL=$(neon connection-string "$database" ${NEON_ROLE:+--role-name "$NEON_ROLE"} \
    ${NEON_DATABASE:+--database-name "$NEON_DATABASE"})
  export DATABASE_OWNER_URL
  mask "$DATABASE_OWNER_URL"

  run npm run db:migrate
  make_logins

  export WRANGLER_OUTPUT_FILE_PATH=$work/wrangler.ndjson
  ship versions upload --preview-alias "$alias"
  local url=PREVIEW_URL
  if ! $dry_run; then
    url=$(sed -n 's/.*"preview_alias_url":"\([^"]*\)".*/\1/p' "$WRANGLER_OUTPUT_FILE_PATH")
    [[ -n $url ]] || fail 1 'The version has no address: set preview_urls = true in wrangler.toml and deploy once.'
    [[ $url == "$PUBLIC_URL" ]] || fail 1 "The version answers at $url: set WORKERS_SUBDOMAIN to the subdomain in it."
    printf '%s\n' "$url"
  fi
  comment <<<"Preview: $url

It has a database branch of its own, \`$database\`, which is deleted with this branch."
}

# Wrangler cannot delete a version or its alias, so only the database is deleted. The address keeps answering, with
# errors, until a branch of the same name takes the alias again.
down() {
  if has_database || $dry_run; then
    neon branches delete "$database" || ! has_database || fail 1 "The database branch $database could not be deleted."
  fi
  comment --if-there <<<"Preview removed: its database branch is deleted.
Cloudflare keeps uploaded versions, so the address still answers, but only with errors."
}

need NEON_API_KEY 'create a key in the Neon console under "API keys" and export it.'
need NEON_PROJECT_ID 'copy the project id from the settings of the Neon project and export it.'
"$action"
