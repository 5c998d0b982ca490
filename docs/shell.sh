# Shell functions for the commands on these pages. Source this file from the project's root:  . docs/shell.sh
# URL and API_KEY are yours if you set them. Otherwise they are those of the running `npm run dev`.

dev_setting() { node -p "require(path.resolve(process.env.SLIPWAY_HOME || '.slipway', 'dev.json')).$1"; }
export URL=${URL:-$(dev_setting url)} API_KEY=${API_KEY:-$(dev_setting api_key)}

# api METHOD PATH [curl options]: sends a request with the key and prints the answer.
api() { curl -sw '\n' -X "$1" -H "X-Api-Key: $API_KEY" -H 'Content-Type: application/json' "$URL$2" "${@:3}"; }

# field NAME: reads JSON from standard input and prints one member of it. If the input is an error, prints that instead.
field() {
  node -e "const answer = JSON.parse(fs.readFileSync(0))
    if (answer.request_id) console.error(answer.code + ': ' + answer.detail), process.exit(1)
    console.log(answer.$1)"
}

# wait_until_served DEPLOYMENT_ID: waits until the latest revision serves, and prints that revision.
wait_until_served() {
  api GET "/v2/deployments/$1/revisions/$(api GET "/v2/deployments/$1" | field latest_revision_id)/wait?until=active"
}

# slipway COMMAND: the command line.
slipway() { node scripts/slipway.mjs "$@"; }
