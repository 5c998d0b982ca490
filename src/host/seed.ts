// `npm run seed`: fills a throwaway database with many tenants and deployments, for benchmarks and trials.
import { parseArgs } from 'node:util'
import { readOwnerUrl } from '../env.ts'
import { connect } from '../kernel/db/db.ts'
import { openDatabase, requireReady } from './database-connection.ts'
import { openHome } from './home-folder.ts'
import { seed } from './seed-data.ts'

const USAGE = `npm run seed -- [--tenants 1000] [--deployments 1000000]

Creates an organization "Seed" with that many workspaces and deployments in the database of DATABASE_URL, or of the
running npm run dev. A tenth of the deployments are in one workspace. A second run adds what is missing.`

async function main() {
  const { values } = parseArgs({
    options: {
      tenants: { type: 'string', default: '1000' },
      deployments: { type: 'string', default: '1000000' },
      help: { type: 'boolean', short: 'h' },
    },
  })
  if (values.help) return console.log(USAGE)
  const tenants = parseAmount('tenants', values.tenants, 100_000)
  const deployments = parseAmount('deployments', values.deployments, 10_000_000)
  const { DATABASE_URL = openHome().read('database-url') } = process.env
  if (!DATABASE_URL) throw new Error('Set DATABASE_URL, or start `npm run dev` to use its database.')
  const url = readOwnerUrl({ ...process.env, DATABASE_URL })

  const { database, pools, close } = openDatabase({ url }, { poolSize: 1 })
  await requireReady(connect({ database }, pools?.connections)).finally(close)
  const began = performance.now()
  const { counts, ...largest } = await seed(url, {
    tenants,
    deployments,
    onProgress: done => showProgress(done, deployments),
  })
  console.log(`${counts.workspaces} workspaces, ${counts.deployments} deployments, ${counts.revisions} revisions, in ${(
    (performance.now() - began) / 1000
  ).toFixed(1)} s
Workspace     ${largest.tenant_id}  with ${counts.largest} deployments
API key       ${largest.api_key}`)
}

/** Updates one line on a terminal. Elsewhere prints a line now and then. */
function showProgress(done: number, all: number): void {
  const text = `${Math.floor((100 * done) / all)} %  ${done} of ${all} deployments`
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${done < all ? text : ''}`)
  else if (done === all || done % 200_000 === 0) process.stderr.write(`${text}\n`)
}

function parseAmount(name: string, text: string, most: number): number {
  const value = Number(text)
  if (/^\d+$/.test(text) && value >= 1 && value <= most) return value
  throw new Error(`--${name} ${text} is not valid. Give a whole number from 1 to ${most}.`)
}

main().catch(error => {
  console.error(error.message)
  process.exitCode = 1
})
