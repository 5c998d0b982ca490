// The database of a deployment, for the programs of Postgres on this machine.
import { execFile } from 'node:child_process'
import { rename, rm, writeFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { CommandFailure, EXIT } from './failure.ts'
import { type Forward, runProgram, withForward } from './forward.ts'
import { findDeployment, type Session } from './session.ts'

type Program = 'psql' | 'pg_dump' | 'pg_restore'

/** Checks the programs before it connects, and their version before `work`. */
export async function withDatabase(
  session: Session,
  name: string | undefined,
  programs: Program[],
  work: (forward: Forward, deployment: { name: string }) => Promise<void>,
): Promise<void> {
  const versions = await Promise.all(programs.map(readVersion))
  const deployment = await findDeployment(session, name)
  await withForward(session, deployment.id, { store: 'postgres' }, 0, async forward => {
    // An older psql connects to a newer server, and pg_dump does not.
    if (programs.some(program => program !== 'psql')) {
      const server = majorOf(await readValue('show server_version', forward))
      const oldest = Math.min(...versions)
      if (oldest < server)
        throw new CommandFailure(
          EXIT.failed,
          'program_too_old',
          `The database runs Postgres ${server}, and the programs of this machine are of ${oldest}. ` +
            howToInstall(server),
        )
    }
    await work(forward, deployment)
  })
}

/** Fails with the program's exit code. Its messages have been shown. */
export async function runTool(forward: Forward, words: [Program, ...string[]]): Promise<void> {
  const code = await runProgram(words, forward)
  if (code !== 0)
    throw new CommandFailure(EXIT.failed, 'program_failed', `${words[0]} ended with ${code}. Its messages are above.`)
}

/** Only its owner can read it. It has its name once it is complete. */
export async function dumpInto(forward: Forward, file: string): Promise<void> {
  const unfinished = `${file}.part`
  await writeFile(unfinished, '', { mode: 0o600 })
  try {
    await runTool(forward, ['pg_dump', '--format=custom', '--no-owner', '--no-privileges', `--file=${unfinished}`])
    await rename(unfinished, file)
  } finally {
    await rm(unfinished, { force: true })
  }
}

export const newDumpName = (name: string, reason = ''): string =>
  `${name}${reason}-${new Date().toISOString().slice(0, 19).replaceAll(':', '')}.dump`

async function readVersion(program: Program): Promise<number> {
  const { stdout } = await promisify(execFile)(program, ['--version']).catch(() => {
    throw new CommandFailure(
      EXIT.failed,
      'program_missing',
      `${program} is not in the PATH of this machine. ${howToInstall('')}`,
    )
  })
  return majorOf(stdout.replace(/^\D*/, ''))
}

async function readValue(sql: string, { variables }: Forward): Promise<string> {
  const args = ['--no-psqlrc', '--tuples-only', '--no-align', '--command', sql]
  const result = promisify(execFile)('psql', args, { env: { ...process.env, ...variables } })
  const { stdout } = await result.catch(error => {
    throw new CommandFailure(EXIT.failed, 'database_unreachable', `psql cannot connect: ${String(error.stderr).trim()}`)
  })
  return stdout
}

const majorOf = (version: string) => Number.parseInt(version, 10)

function howToInstall(version: number | ''): string {
  const ofVersion = version && ` ${version}`
  const suffix = version && `-${version}`
  return (
    `Install the client of Postgres${ofVersion}: \`apt-get install postgresql-client${suffix}\` with the packages of ` +
    'apt.postgresql.org, or `brew install libpq`.'
  )
}
