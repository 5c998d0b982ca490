// `slipway exec`: a command beside a copy of a deployment, in a terminal or with pipes.
import { constants } from 'node:os'
import { channels, type Exit, encodeJson, encodeText } from '../../protocol/tunnel-frames.ts'
import type { Declaration } from '../declaration.ts'
import { EXIT, usageError } from '../failure.ts'
import { splitProgram } from '../flags.ts'
import { findDeployment, type Session } from '../session.ts'
import { openTunnel } from '../tunnel.ts'

export const declaration: Declaration = {
  arguments: '[deployment] [command...]',
  summary: 'run a command in the environment of a deployment, or a shell',
  description:
    'Runs a command beside a copy of the deployment, in the environment of the serving revision. Write it after --. ' +
    'Without one, a shell. The exit code is that of the command, or 128 and the number of its signal.',
  options: command =>
    command
      .option('-T, --no-tty', 'pipes in place of a terminal, also on a terminal')
      .option('--copy <number>', 'the copy, from 1. Default: the first that runs'),
}

type Flags = { tty: boolean; copy?: string }

export async function run(session: Session, { tty: wantsTty, copy }: Flags, args: (string | undefined)[]) {
  const [[name, ...rest], command] = splitProgram(args)
  if (rest.length > 0) throw usageError('Write -- before the command.', `slipway exec ${name} -- ${rest.join(' ')}`)
  const { client, signal } = session
  const { stdin, stdout, stderr } = process
  const tty = wantsTty && stdin.isTTY === true && stdout.isTTY === true
  const deployment = await findDeployment(session, name)
  const body = () => ({
    tty,
    ...(command.length > 0 && { command }),
    ...(tty && sizeOf(stdout)),
    ...(copy !== undefined && { copy: parseCopy(copy) }),
  })
  const route = 'POST /v2/deployments/{deployment_id}/terminals'
  const params = { deployment_id: deployment.id }
  const ask = async () => (await client.call(route, { params, body: body(), signal })).url
  const restore = () => {
    if (tty) stdin.setRawMode(false)
  }
  // Each end of the process passes here, but for SIGKILL.
  process.once('exit', restore)
  for (const name of ['SIGTERM', 'SIGHUP'] as const)
    process.once(name, () => process.exit(128 + constants.signals[name]))
  try {
    const { link, ended } = await openTunnel(ask, { signal, onErrors: bytes => stderr.write(bytes) })
    const resize = () => link.send(encodeJson(channels.resize, sizeOf(stdout)))
    if (tty) {
      stdin.setRawMode(true)
      stdout.on('resize', resize)
      // It may have changed meanwhile.
      resize()
    }
    // In a raw terminal Ctrl-C is a byte.
    signal.addEventListener('abort', () => link.send(encodeText(channels.signal, 'SIGINT')))
    link.readFrom(stdin)
    stdin.once('end', () => link.end())
    link.writeTo({ write: (bytes, done) => stdout.write(bytes, done), end() {} })
    const exit = await ended
    stdout.off('resize', resize)
    process.exitCode = codeOf(exit)
  } finally {
    restore()
    process.off('exit', restore)
    stdin.pause()
    stdin.unref?.()
  }
}

/** Some pseudo-terminals are 0 by 0. */
const sizeOf = ({ columns, rows }: NodeJS.WriteStream) => ({
  columns: Math.min(1000, columns || 80),
  rows: Math.min(1000, rows || 24),
})

function codeOf(exit: Exit | null): number {
  if (!exit) return EXIT.failed
  if (exit.signal !== null) return 128 + (constants.signals[exit.signal as NodeJS.Signals] ?? 0)
  return exit.code ?? EXIT.failed
}

export function parseCopy(text: string): number {
  if (/^[1-9]\d{0,2}$/.test(text)) return Number(text)
  throw usageError(`--copy ${text} is not the number of a copy.`)
}
