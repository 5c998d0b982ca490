// `slipway audit export`: the audit log as a file.
import type { CallOptions } from '../../client/client.ts'
import { type AuditFilters, toQuery, withFilters } from '../audit-filters.ts'
import type { Declaration } from '../declaration.ts'
import { usageError } from '../failure.ts'
import { formatBytes } from '../output.ts'
import { writeFile, writeToStdout } from '../output-file.ts'
import type { Session } from '../session.ts'

export const declaration: Declaration = {
  summary: 'write them to standard output or a file',
  options: command =>
    withFilters(command)
      .option('--format <format>', 'ndjson, csv or ocsf', 'ndjson')
      .option('--output <file>', 'a file that is readable by you only'),
}

type Flags = AuditFilters & { format: string; output?: string }

const EXPORT = 'GET /v1/audit-logs/export'
const FORMATS = ['ndjson', 'csv', 'ocsf'] as const

export async function run(session: Session, options: Flags): Promise<void> {
  const { client, out, signal } = session
  const format = FORMATS.find(name => name === options.format)
  if (!format) throw usageError(`--format ${options.format} is not one of ${FORMATS.join(', ')}.`)
  const query: CallOptions<typeof EXPORT>['query'] = { ...toQuery(session, options), format }
  const chunks = client.download(EXPORT, { query, signal })
  if (options.output === undefined) return writeToStdout(chunks, signal)
  const bytes = await writeFile(options.output, chunks, done => out.progress(`Exported ${formatBytes(done)}`))
  out.progress('')
  const result = { type: 'result', outcome: 'exported', file: options.output, format, bytes }
  out.emit(result, () => `Exported ${formatBytes(bytes)} to ${options.output}.`)
}
