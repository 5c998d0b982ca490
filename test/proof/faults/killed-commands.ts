// R20: `slipway restore` and `slipway reseal` are killed after each line that they print, and repeated.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createHost } from '../../../src/host/host.ts'
import type { SealingKeys } from '../../../src/host/operate/manifest.ts'
import { writeBackup } from '../../../src/host/operate/write-backup.ts'
import { makeImageBody } from '../../support/deployment-bodies.ts'
import { query } from '../../support/postgres.ts'
import { openTestbed, SETTINGS, SILENT_LOG, scaleCount, type Trial, type TrialContext } from '../support/testbed.ts'

const MAIN = join(import.meta.dirname, '../../../src/host/main.ts')
/** More than two batches. */
const SECRETS = 450
const NEW_KEY = `b:${Buffer.alloc(32, 8).toString('base64url')}`

type Settings = Record<string, string>

/** Returns the number of lines and the exit code, which is null for a process that was killed. */
async function run(args: string[], env: Settings, killAfter = Infinity) {
  const child = spawn(process.execPath, [MAIN, ...args], { env: { PATH: process.env.PATH, ...env } })
  let lines = 0
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => {
      output += chunk
      lines += chunk.toString().split('\n').length - 1
      if (lines >= killAfter) child.kill('SIGKILL')
    })
  const [code] = await once(child, 'close')
  return { lines, code: code as number | null, output }
}

const countRows = async (url: string): Promise<string> => {
  const [row] = await query(
    url,
    `select (select count(*) from organizations) as organizations, (select count(*) from events) as events,
      (select count(*) from deployment_secrets) as secrets`,
  )
  return JSON.stringify(row)
}

async function isReady(url: string): Promise<boolean> {
  const host = createHost({ ...SETTINGS, DATABASE_URL: url }, SILENT_LOG)
  const { status } = await host.app.request('/readyz')
  await host.close()
  return status === 200
}

/** Counts the secrets that the API shows. To show them is an event. */
async function countSecrets(url: string, keys: string, { api_key, id }: { api_key: string; id: string }) {
  const host = createHost({ ...SETTINGS, SEALING_KEYS: keys, DATABASE_URL: url }, SILENT_LOG)
  const headers = { 'X-Api-Key': api_key }
  const answer = await host.app.request(`/v2/deployments/${id}?reveal=true`, { headers })
  const { secrets } = (await answer.json()) as { secrets?: { value: string }[] }
  await host.close()
  return new Set(secrets?.map(({ value }) => value)).size
}

export default {
  id: 'R20',
  what: 'restore and reseal are killed after each line and repeated',
  target: '0 rows and 0 secrets lost; no half of a restore is served',
  async run(context: TrialContext) {
    const { app, url, logins, tenant } = await openTestbed(context)
    const folder = await mkdtemp(join(tmpdir(), 'slipway-killed-'))
    context.defer(() => rm(folder, { recursive: true, force: true }))
    const { api_key } = await tenant()
    const secrets = Array.from({ length: SECRETS }, (_, i) => ({ name: `TOKEN_${i}`, value: `value ${i}` }))
    const created = await app.request('/v2/deployments', {
      method: 'POST',
      headers: { 'X-Api-Key': api_key, 'Content-Type': 'application/json' },
      body: JSON.stringify(makeImageBody({ name: 'billing', secrets })),
    })
    const caller = { api_key, id: ((await created.json()) as { id: string }).id }
    const keys = [SETTINGS.SEALING_KEYS.split(':')] as SealingKeys
    const backup = join(folder, 'backup')
    await writeBackup({ url: logins.system, folder: backup, keys, storage: undefined, log: () => {} })
    const expected = await countRows(url)
    const faults: string[] = []

    const kills = scaleCount(context, 25)
    const stride = Math.max(1, Math.floor(12 / kills))
    let restores = 0
    for (let line = 1, isKilled = true; isKilled && restores < kills; line += stride, restores++) {
      context.progress(`restore killed after line ${line}`)
      const name = `killed_${process.pid}_${line}`
      await query(url, `create database ${name}`)
      const database = Object.assign(new URL(url), { pathname: name }).href
      const settings = { SEALING_KEYS: SETTINGS.SEALING_KEYS, DATABASE_OWNER_URL: database }
      const first = await run(['restore', backup, '--without-uploads'], settings, line)
      isKilled = first.code === null
      const rows = await countRows(database).catch(() => 'no tables')
      if ((await isReady(database)) && rows !== expected)
        faults.push(`after line ${line} a database with ${rows} is served`)
      const again = isKilled ? await run(['restore', backup, '--without-uploads'], settings) : first
      const isComplete = again.code === 0 || again.output.includes('has organizations')
      if (!isComplete || (await countRows(database)) !== expected) faults.push(`line ${line}: ${again.output}`)
      const values = await countSecrets(database, SETTINGS.SEALING_KEYS, caller)
      if (values !== SECRETS) faults.push(`line ${line}: ${values} secrets`)
      await query(url, `drop database ${name} with (force)`)
    }

    const both = `${NEW_KEY},${SETTINGS.SEALING_KEYS}`
    const settings = { SEALING_KEYS: both, DATABASE_SYSTEM_URL: logins.system }
    let reseals = 0
    for (let line = 1, isKilled = true; isKilled && reseals < kills; line++, reseals++) {
      context.progress(`reseal killed after line ${line}`)
      isKilled = (await run(['reseal'], settings, line)).code === null
      const values = await countSecrets(url, both, caller)
      if (values !== SECRETS) faults.push(`reseal, line ${line}: ${values} secrets`)
    }
    const atOnce = await Promise.all([run(['reseal'], settings), run(['reseal'], settings)])
    const stillNeeded = atOnce.filter(({ output }) => output.includes('Values still need'))
    faults.push(...stillNeeded.map(({ output }) => output))
    const values = await countSecrets(url, NEW_KEY, caller)
    if (values !== SECRETS) faults.push(`the new key alone opens ${values} secrets`)
    return {
      measured: `${restores} restores and ${reseals} reseals killed; ${faults.length} faults`,
      met: faults.length === 0,
      notes: faults,
      figures: { restores, reseals, faults: faults.length },
    }
  },
} satisfies Trial
