#!/usr/bin/env bash
# Ships to production: makes the bucket if there is none, migrates the database as its owner, then deploys the Worker.
# `npm run db:logins` makes the other two addresses, once.
#   scripts/deploy.sh [--dry-run]
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[[ $# == 0 ]] || fail 2 'usage: scripts/deploy.sh [--dry-run]'

for name in DATABASE_OWNER_URL "${worker_secrets[@]}"; do
  need "$name" "export production's own, or add it to the secrets of the GitHub environment \"production\"."
done
need_cloudflare

make_bucket
run npm run db:migrate
ship deploy
