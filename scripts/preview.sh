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

# A branch's name is anybody's text. What is left of it is for people to read; the hash is what tells branches apart, so
# every alias has one. Alias and Worker's name share a DNS label of 63 characters, with a dash between them.
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

# Whether the database branch is there. Only Neon's own "not found" counts as absence: any other failure ends the script.
has_database() {
  local answer
  if ! answer=$(neon branches get "$database" 2>&1); then
    [[ $answer == *"Branch $database not found"* ]] || fail 1 "$answer"
    return 1
  fi
  [[ $dry_run == false ]]
}

# comment [--if-there]: writes stdin into this script's one comment on the pull request. The marker finds it, among the
# comments by whoever is asking: a stranger's comment with the same marker is not ours to fill.
comment() {
  local marker='<!-- slipway:preview -->' body ours id
  [[ -n $pr ]] || return 0
  body=$marker$'\n'$(cat)
  ours=".comments[] | select(.viewerDidAuthor and (.body | startswith(\"$marker\"))) | .url | sub(\".*-\"; \"\")"
  id=$(run gh pr view "$pr" --json comments --jq "$ours" | sed -n 1p)
  if $dry_run && [[ ${1:-} == --if-there ]]; then id=COMMENT_ID; fi
  if [[ -n $id ]]; then
    run gh api --silent --method PATCH "repos/{owner}/{repo}/issues/comments/$id" --field body=@- <<<"$body"
  elif [[ ${1:-} != --if-there ]]; then
    run gh pr comment "$pr" --body-file - <<<"$body"
  fi
}

# Nothing here prints an address; this keeps it out of the log of whatever else might.
mask() {
  [[ ${GITHUB_ACTIONS:-} != true ]] || $dry_run || printf '::add-mask::%s\n' "$@"
}

# The two logins of the database, with new passwords: a branch brings those of its parent along.
make_logins() {
  local made
  made=$(run npm run --silent db:logins)
  DATABASE_URL=$(sed -n 's/^DATABASE_URL=//p' <<<"$made")
  DATABASE_SYSTEM_URL=$(sed -n 's/^DATABASE_SYSTEM_URL=//p' <<<"$made")
  export DATABASE_URL DATABASE_SYSTEM_URL
  mask "$DATABASE_URL" "$DATABASE_SYSTEM_URL"
}

up() {
  need_cloudflare
  for name in SEALING_KEYS WORKERS_SUBDOMAIN; do
    need "$name" 'export it, or add it to the GitHub environment "preview".'
  done
  # Known before the version is: a Worker has to be told where it is reached.
  export PUBLIC_URL=https://$alias-$worker.$WORKERS_SUBDOMAIN.workers.dev

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

It has a database branch of its own, \`$database\`, which goes when this branch does."
}

# Wrangler has no command that deletes a version or its alias. So what goes is the database: the address keeps answering,
# with errors, until a branch of the same name takes the alias again.
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
