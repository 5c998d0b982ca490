// `slipway alerts create`: creates a rule on a metric, on log lines or on events.
import type { Declaration } from '../declaration.ts'
import { usageError } from '../failure.ts'
import { findDeployment, type Session } from '../session.ts'
import { parseCount, parseDuration } from '../times.ts'

export const declaration: Declaration = {
  arguments: '<name>',
  summary: 'create a rule: --metric with --above or --below, --log, or --event',
  options: command =>
    command
      .option('--metric <metric>', 'a metric of deployments, such as error_rate, latency_p95 or memory')
      .option('--above <value>', 'the condition holds above it')
      .option('--below <value>', 'the condition holds below it')
      .option('--log <text>', 'lines of the log that contain the text')
      .option('--count <number>', 'with --log: so many lines, by default 1')
      .option('--event <types>', 'types of events, separated by commas')
      .option('--ends <types>', 'with --event: types that are its end')
      .option('--window <duration>', 'the time that is looked at, such as 5m')
      .option('--for <duration>', 'how long the condition must hold')
      .option('--severity <severity>', 'critical, error, warning or info')
      .option('--app <deployment>', 'only this deployment'),
}

type Flags = {
  metric?: string
  above?: string
  below?: string
  log?: string
  count?: string
  event?: string
  ends?: string
  window?: string
  for?: string
  severity?: string
  app?: string
}

const seconds = (text: string, option: string): number => parseDuration(text, option) / 1000

function readCondition(flags: Flags): object {
  const { metric, above, below, log, count, event, ends, window } = flags
  const kinds = [metric, log, event].filter(one => one !== undefined)
  if (kinds.length !== 1) throw usageError('Give one of --metric, --log and --event.')
  const timed = { ...(window && { window_seconds: seconds(window, '--window') }) }
  if (log !== undefined)
    return { kind: 'log', contains: log, ...(count && { count: parseCount(count, '--count', 1_000_000) }), ...timed }
  if (event !== undefined) return { kind: 'event', types: event.split(','), ...(ends && { ends: ends.split(',') }) }
  if ((above === undefined) === (below === undefined)) throw usageError('Give one of --above and --below.')
  const threshold = Number(above ?? below)
  if (Number.isNaN(threshold)) throw usageError(`${above ?? below} is not a number.`)
  return { kind: 'metric', metric, operator: above === undefined ? 'below' : 'above', threshold, ...timed }
}

export async function run(session: Session, flags: Flags, [name]: [string]): Promise<void> {
  const { client, out, signal } = session
  const condition = readCondition(flags)
  const deployment = flags.app === undefined ? undefined : await findDeployment(session, flags.app)
  const body = {
    name,
    condition,
    ...(flags.for && { for_seconds: seconds(flags.for, '--for') }),
    ...(flags.severity && { severity: flags.severity }),
    ...(deployment && { deployment_ids: [deployment.id] }),
  }
  const created = await client.call('POST /v2/alert-rules', { body: body as never, signal })
  out.emit({ ...created }, () => `Created the alert rule ${created.name}.`)
}
