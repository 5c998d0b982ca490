// `slipway request-logs`: shows or sets which requests to a deployment become lines of its log.
import type { Declaration } from '../declaration.ts'
import { usageError } from '../failure.ts'
import type { Deployment, Session } from '../session.ts'
import { readDeployment } from '../variables.ts'

export const declaration: Declaration = {
  arguments: '[deployment] [mode]',
  summary: 'set which requests become log lines: off, errors, sampled or all',
  options: command =>
    command
      .option('--rate <lines>', 'with sampled: lines a second beside those of errors. Default: as it is')
      .option('--slow <milliseconds>', 'a request is slow if its answer begins later. Default: as it is')
      .option('--client-address <form>', 'none, truncated or full. Default: as it is'),
}

type Flags = { rate?: string; slow?: string; clientAddress?: string }
type RequestLogs = Deployment['request_logs']

const MODES: string[] = ['off', 'errors', 'sampled', 'all'] satisfies RequestLogs['mode'][]
const EXAMPLE = 'slipway request-logs shop sampled --rate 5'

export async function run(session: Session, flags: Flags, [first, second]: (string | undefined)[]): Promise<void> {
  // Alone, a word that is a mode is one.
  const [name, mode] = second === undefined && MODES.includes(first ?? '') ? [undefined, first] : [first, second]
  if (mode !== undefined && !MODES.includes(mode)) throw usageError(`${mode} is not ${MODES.join(', ')}.`, EXAMPLE)
  const { client, out, signal } = session
  const { deployment, etag } = await readDeployment(session, name)
  const kept = deployment.request_logs
  const body = {
    mode: (mode ?? kept.mode) as RequestLogs['mode'],
    rate: parseNumber('--rate', flags.rate, kept.rate),
    slow_ms: parseNumber('--slow', flags.slow, kept.slow_ms),
    client_address: (flags.clientAddress ?? kept.client_address) as RequestLogs['client_address'],
  }
  const isChange = mode !== undefined || Object.keys(flags).length > 0
  const { request_logs } = isChange
    ? await client.call('PUT /v2/deployments/{deployment_id}/request-logs', {
        params: { deployment_id: deployment.id },
        body,
        headers: { 'If-Match': etag },
        signal,
      })
    : deployment
  out.emit({ name: deployment.name, request_logs }, () => `${deployment.name}: ${describe(request_logs)}`)
}

function describe({ mode, rate, slow_ms, client_address }: RequestLogs): string {
  if (mode === 'off') return 'no requests become log lines.'
  const others = { errors: 'no others', sampled: `${rate} others a second`, all: 'all others' }[mode]
  return `requests that fail or take ${slow_ms} ms, and ${others}. Client addresses: ${client_address}.`
}

function parseNumber(flag: string, text: string | undefined, kept: number): number {
  if (text === undefined) return kept
  if (!/^\d{1,6}$/.test(text)) throw usageError(`${flag} ${text} is not a whole number.`, EXAMPLE)
  return Number(text)
}
