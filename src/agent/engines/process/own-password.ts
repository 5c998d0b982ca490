// A password of its own for the superuser of each data folder, which comes from a template or from a backup.
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { join } from 'node:path'
import * as pg from '../../../postgres/data-folder.ts'
import { MASK } from '../../redaction/secret-masks.ts'

const MAX_OUTPUT = 4_000
const TIMEOUT_MS = 60_000

const markOf = (folder: string) => `${folder}.own-password`
export const hasOwnPassword = (folder: string): boolean => fs.existsSync(markOf(folder))

/**
 * Call it while no server runs there, and again after a crash. The file of the password changes once Postgres has
 * taken it: another agent may try at the same time, and Postgres lets one. `settings`: the WAL of the change is
 * archived, too.
 */
export async function giveOwnPassword(
  folder: string,
  { postgres }: pg.Binaries,
  identity: pg.ServerIdentity,
  settings: Record<string, string | number>,
): Promise<void> {
  if (hasOwnPassword(folder)) return
  const password = randomBytes(24).toString('base64url')
  pg.replaceStalePid(folder)
  const flags = Object.entries(settings).map(([name, value]) => `--${name}=${value}`)
  const [command = '', ...args] = [...identity.prefix, postgres, '--single', '-D', folder, ...flags, 'postgres']
  const options = { ...pg.spawnOptions(identity), stdio: ['pipe', 'ignore', 'pipe'] as const, timeout: TIMEOUT_MS }
  const child = spawn(command, args, options as never)
  let output = ''
  child.stderr!.on('data', chunk => {
    output = (output + chunk).slice(-MAX_OUTPUT)
  })
  // Not an argument: those are seen by other users of the machine.
  child.stdin!.on('error', () => {})
  child.stdin!.end(`alter role slipway password '${password}'\n`)
  const [code] = (await once(child, 'close')) as [number | null]
  if (code !== 0 || output.includes('ERROR:')) {
    // Postgres repeats a statement that fails. Of a line that was cut, a part of the password may be left.
    const lines = output.length < MAX_OUTPUT ? output : output.slice(output.indexOf('\n') + 1)
    const log = lines.replaceAll(password, MASK)
    throw new Error(`The Postgres server of this agent did not take a password. Its log ends with:\n${log}`)
  }
  fs.rmSync(join(folder, pg.PASSWORD_FILE), { force: true })
  fs.writeFileSync(pg.passwordBeside(folder), password, { mode: 0o600 })
  fs.writeFileSync(markOf(folder), '', { mode: 0o600 })
}
