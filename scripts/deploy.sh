#!/usr/bin/env bash
# Deploys to production: builds the dashboard, creates the bucket if needed, migrates the database as its owner, then
# deploys the Worker.
# `npm run db:logins` creates the values of DATABASE_URL and DATABASE_SYSTEM_URL, once.
#   scripts/deploy.sh [--dry-run]
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[[ $# == 0 ]] || fail 2 'usage: scripts/deploy.sh [--dry-run]'

for name in DATABASE_OWNER_URL "${worker_secrets[@]}"; do
  need "$name" "export the value of production, or add it to the secrets of the GitHub environment \"production\"."
done
need_cloudflare

run npm run build:dashboard
make_bucket
run npm run db:migrate
ship deploy
