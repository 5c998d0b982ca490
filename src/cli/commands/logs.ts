// `slipway logs`: the newest lines, and with --follow those that arrive.
import { usageError } from '../failure.ts'
import { formatLogLine } from '../log-lines.ts'
import { findDeployment, findRevision, type Session } from '../session.ts'

export type LogOptions = {
  follow?: boolean
  build?: boolean
  revision?: string
  level?: string
  query?: string
  tail: string
}

export async function showLogs(session: Session, name: string | undefined, options: LogOptions): Promise<void> {
  const { client, out, signal } = session
  if (!/^\d{1,4}$/.test(options.tail)) throw usageError(`--tail ${options.tail} is not a number of lines up to 1000.`)
  const deployment = await findDeployment(session, name)
  const revision = options.revision && (await findRevision(session, deployment, options.revision)).id
  const filters = {
    ...(options.build && { kind: 'build' as const }),
    ...(revision && { revision_id: revision }),
    ...(options.level && { level: options.level.toUpperCase() as 'INFO' }),
    ...(options.query && { query: options.query }),
  }
  const params = { deployment_id: deployment.id }
  const query = { ...filters, tail: Number(options.tail) }
  type Line = Parameters<typeof formatLogLine>[1]
  const show = (line: Line) => out.emit({ type: 'log', ...line }, () => formatLogLine(out, line))
  if (!options.follow) {
    const limit = Math.max(1, query.tail)
    const { logs } = await client.call('GET /v2/deployments/{deployment_id}/logs', {
      params,
      query: { ...query, limit },
      signal,
    })
    return logs.forEach(show)
  }
  const onState = ({ state }: { state: string }) => {
    if (state === 'reconnecting') out.note('The log stream was cut. Reconnecting.')
  }
  const stream = client.stream('GET /v2/deployments/{deployment_id}/logs/stream', { params, query, signal, onState })
  for await (const { event, data } of stream) {
    if (event === 'message') show(data)
    else out.note('Some lines are no longer kept.')
  }
}
