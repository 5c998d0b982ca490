// `slipway connect`: a local port that leads to one of a copy, or to the database or cache of a deployment.
import type { Declaration } from '../declaration.ts'
import { usageError } from '../failure.ts'
import { splitProgram } from '../flags.ts'
import { HOST, runProgram, type Target, withForward } from '../forward.ts'
import { findDeployment, type Session } from '../session.ts'
import { parseCopy } from './exec.ts'

export const declaration: Declaration = {
  arguments: '[deployment] <target>',
  summary: 'connect to a port, the database or the cache of a deployment',
  description:
    'Listens on a local port and connects to a port of a copy (`8000`, or `web` for its own), `postgres` or `redis`. ' +
    'With a program after `--`, runs it with the variables of the store, such as `connect shop postgres -- psql`.',
  options: command =>
    command
      .argument('[program...]')
      .option('--port <port>', 'the local port. Default: a free one')
      .option('--copy <number>', 'the copy, from 1. Default: the first that runs'),
}

type Flags = { port?: string; copy?: string }

export async function run(session: Session, flags: Flags, args: (string | undefined)[]): Promise<void> {
  const [own, program] = splitProgram(args)
  const [name, wanted] = own.length === 1 ? [undefined, own[0]] : own
  const target: Target = {
    ...parseTarget(wanted!),
    ...(flags.copy !== undefined && { copy: parseCopy(flags.copy) }),
  }
  const { signal, out } = session
  const deployment = await findDeployment(session, name)
  await withForward(session, deployment.id, target, parsePort(flags.port), async forward => {
    const { port, variables, ended } = forward
    if (program.length > 0) {
      process.exitCode = await runProgram(program, forward)
      return
    }
    const address = variables.DATABASE_URL ?? variables.REDIS_URL ?? `${HOST}:${port}`
    out.emit({ type: 'listening', host: HOST, port, url: address }, () => address)
    out.note('Until Ctrl-C.')
    await Promise.race([ended, interrupted(signal)])
  })
}

function parseTarget(text: string): Target {
  if (text === 'web') return {}
  if (text === 'postgres' || text === 'redis') return { store: text }
  if (/^\d{1,5}$/.test(text) && Number(text) > 0 && Number(text) <= 65_535) return { port: Number(text) }
  throw usageError(`${text} is none of web, postgres, redis and a port.`)
}

function parsePort(text = '0'): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text)
  throw usageError(`--port ${text} is not a port.`)
}

const interrupted = (signal: AbortSignal): Promise<void> =>
  new Promise(resolve => signal.addEventListener('abort', () => resolve()))
