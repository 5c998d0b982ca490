// `npm run audit:verify`: checks that no event of the journals was changed, removed, inserted or moved in the database.
import { parseArgs } from 'node:util'
import { readSealingKeys, readSystemUrl } from '../env.ts'
import type { JournalReport } from '../people/audit/verify.ts'
import { Uuid } from '../protocol/wire.ts'
import { openHome } from './home-folder.ts'

const USAGE = `npm run audit:verify -- [--workspace ID]

Verifies the hash chain and the signatures of every journal, or of one workspace or organization, in the database of
DATABASE_SYSTEM_URL or DATABASE_URL, or of the running npm run dev. Needs the SEALING_KEYS of the installation. Ends
with exit code 1 if a journal has a fault.`

async function main() {
  const { values } = parseArgs({ options: { workspace: { type: 'string' }, help: { type: 'boolean', short: 'h' } } })
  if (values.help) return console.log(USAGE)
  const workspace = parseWorkspace(values.workspace)
  const home = openHome()
  const ownDatabase = home.read('database-url')
  const { DATABASE_SYSTEM_URL, DATABASE_URL = ownDatabase } = process.env
  if (!DATABASE_SYSTEM_URL && !DATABASE_URL)
    throw new Error('Set DATABASE_SYSTEM_URL, or start `npm run dev` to use its database.')
  const isDev = !DATABASE_SYSTEM_URL && DATABASE_URL === ownDatabase
  const keys = readSealingKeys(isDev ? { SEALING_KEYS: home.secrets().sealing_keys } : process.env)
  const url = readSystemUrl({ DATABASE_SYSTEM_URL, DATABASE_URL })

  // Loaded after the settings are valid: it takes a second.
  const { openSystemDatabase } = await import('./database-connection.ts')
  const { createJournalSigner } = await import('../people/audit/hash-chain.ts')
  const { listJournals, verifyJournal } = await import('../people/audit/verify.ts')
  const name = DATABASE_SYSTEM_URL ? 'DATABASE_SYSTEM_URL' : 'DATABASE_URL'
  const { database, close } = await openSystemDatabase(url, name)
  try {
    const signer = createJournalSigner(keys)
    const journals = await listJournals(database)
    const wanted = workspace === undefined ? journals : journals.filter(scope => scope === workspace)
    if (workspace !== undefined && wanted.length === 0) throw new Error(`${workspace} has no journal.`)
    const reports: JournalReport[] = []
    for (const scope of wanted) {
      const report = await verifyJournal({ database, signer }, scope)
      reports.push(report)
      for (const { message } of report.faults) console.log(`journal ${scope}: ${message}`)
    }
    console.log(summarize(reports))
    if (reports.some(({ faults }) => faults.length > 0)) process.exitCode = 1
  } finally {
    await close()
  }
}

function summarize(reports: JournalReport[]): string {
  const total = (count: (report: JournalReport) => number) => reports.reduce((sum, report) => sum + count(report), 0)
  const [withoutHash, unknownKeys] = [total(report => report.withoutHash), total(report => report.unknownKeys)]
  const faults = total(report => report.faults.length)
  return [
    `${reports.length} journals, ${total(report => report.events)} events, ${total(report => report.heads)} signatures`,
    ...(withoutHash > 0 ? [`${withoutHash} events are older than the hash chain and were not checked.`] : []),
    ...(unknownKeys > 0 ? [`${unknownKeys} signatures need a key that SEALING_KEYS no longer has.`] : []),
    faults === 0 ? 'No fault found.' : `${faults} faults found.`,
  ].join('\n')
}

function parseWorkspace(text: string | undefined): string | undefined {
  if (text === undefined) return undefined
  const parsed = Uuid.safeParse(text)
  if (parsed.success) return parsed.data
  throw new Error(`--workspace ${JSON.stringify(text)} is not the UUID of a workspace or organization.`)
}

main().catch(error => {
  console.error(error.message)
  process.exitCode = 1
})
