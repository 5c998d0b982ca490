// `slipway drains create`: sends logs, metrics, traces or events of the workspace to a receiver.
import type { Declaration } from '../declaration.ts'
import { usageError } from '../failure.ts'
import { findDeployment, type Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '<name> <kind> <url>',
  summary: 'create one: otlp, ndjson, loki or syslog',
  options: command =>
    command
      .option('--signals <names>', 'logs, requests, metrics, events or traces, separated by commas; default: logs')
      .option('--header <header...>', 'a header such as "Authorization: Bearer …", which is kept as a secret')
      .option('--deployment <names>', 'only of these deployments, separated by commas')
      .option('--level <level>', 'only lines of this level and of more severe ones')
      .option('--contains <text>', 'only lines with this text')
      .option('--sampling <share>', 'the share of the lines that is sent, such as 0.1'),
}

type Flags = {
  signals?: string
  header?: string[]
  deployment?: string
  level?: string
  contains?: string
  sampling?: string
}

export async function run(session: Session, options: Flags, [name, kind, url]: [string, string, string]) {
  const { client, out, signal } = session
  const { signals, header = [], deployment, level, contains, sampling } = options
  const deployment_ids: string[] = []
  for (const wanted of deployment?.split(',') ?? []) deployment_ids.push((await findDeployment(session, wanted)).id)
  const body = {
    name,
    kind,
    url,
    headers: Object.fromEntries(header.map(splitHeader)),
    ...(signals && { signals: signals.split(',') }),
    ...(deployment_ids.length > 0 && { deployment_ids }),
    ...((level || contains) && {
      filter: { ...(level && { min_level: level.toUpperCase() }), ...(contains && { contains }) },
    }),
    ...(sampling && { sampling_rate: Number(sampling) }),
  }
  const created = await client.call('POST /v2/drains', { body: body as never, signal })
  out.emit({ ...created }, () => `Created the drain ${created.name}. Try it with: slipway drains test ${created.id}`)
}

function splitHeader(text: string): [string, string] {
  const at = text.indexOf(':')
  if (at > 0) return [text.slice(0, at).trim(), text.slice(at + 1).trim()]
  const next = 'slipway drains create NAME otlp URL --header "Authorization: Bearer …"'
  throw usageError('A header is a name, a colon and a value.', next)
}
