// The variables that `slipway deploy` sets: of files, of a hidden prompt or standard input, or of the command line.
import { readFileSync } from 'node:fs'
import { describeUnreadLines, parseEnvFile } from '../protocol/env-file.ts'
import { isReservedVariable } from '../protocol/reserved-variables.ts'
import type { Variable } from './deploy-source.ts'
import { usageError } from './failure.ts'
import { readSecret, readStdin } from './secret-input.ts'
import type { Session } from './session.ts'
import { toVariables } from './variables.ts'

export type EnvironmentFlags = { env?: string[]; secretsFile?: string[]; envFile?: string[] }

/** `--env` wins over files, and a later option over an earlier one. */
export async function readVariables(
  session: Session,
  { env = [], secretsFile = [], envFile = [] }: EnvironmentFlags,
): Promise<Variable[]> {
  const { out } = session
  const asked = env.filter(name => !name.includes('='))
  const readers = asked.length + secretsFile.filter(file => file === '-').length
  if (readers > 1 && !out.isInteractive)
    throw usageError('Only one value can be read from standard input. Write the others to a file for --secrets-file.')
  const values: Record<string, string> = {}
  for (const file of envFile) refuseOwnVariables(file)
  for (const file of [...envFile, ...secretsFile]) Object.assign(values, await readEnvFile(session, file))
  for (const given of env) {
    const equals = given.indexOf('=')
    const name = equals < 0 ? given : given.slice(0, equals)
    values[name] = equals < 0 ? await askFor(name, out.isInteractive) : given.slice(equals + 1)
  }
  return toVariables(values)
}

/** Node takes `--env-file` from every command line, so a file of it can change what this program does. */
function refuseOwnVariables(file: string): void {
  const own = Object.keys(parseEnvFile(readFileSync(file, 'utf8'))).filter(name =>
    /^(NODE_OPTIONS$|SLIPWAY_)/.test(name),
  )
  if (own.length > 0)
    throw usageError(`Node reads --env-file too, and ${own.join(', ')} of ${file} would act here. Use --secrets-file.`)
}

/** Without those that the platform sets: files for a machine of one's own often have a PORT. */
export async function readEnvFile({ out }: Session, file: string): Promise<Record<string, string>> {
  const text = file === '-' ? await readStdin() : readFileSync(file, 'utf8')
  const unread = describeUnreadLines(text)
  if (unread) throw usageError(`${file}: ${unread}`)
  const values = parseEnvFile(text)
  if (Object.keys(values).length === 0) throw usageError(`${file} has no lines of the form NAME=value.`)
  const reserved = Object.keys(values).filter(isReservedVariable)
  if (reserved.length > 0) out.note(`Left out, as the platform sets it: ${reserved.join(', ')} of ${file}.`)
  return Object.fromEntries(Object.entries(values).filter(([name]) => !reserved.includes(name)))
}

const askFor = async (name: string, isInteractive: boolean): Promise<string> =>
  (await readSecret(name, { ask: true, isInteractive })) ?? ''
