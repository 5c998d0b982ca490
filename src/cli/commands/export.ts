// `slipway export`: the workspace as one file.
import { EXPORT_FORMATS, findWorkspace, LEFT_OUT, listUnreadable, writeExport } from '../../client/export.ts'
import type { Declaration } from '../declaration.ts'
import { usageError } from '../failure.ts'
import { formatBytes } from '../output.ts'
import { writeFile, writeToStdout } from '../output-file.ts'
import type { Session } from '../session.ts'

export const declaration: Declaration = {
  summary: 'write the workspace as one file',
  options: command =>
    command
      .option('-o, --output <file>', 'a file that is readable by you only. Default: standard output')
      .option('--format <format>', 'yaml or json', 'yaml'),
}

type Flags = { output?: string; format: string }

export async function run(session: Session, options: Flags): Promise<void> {
  const { client, out, login, signal } = session
  const format = EXPORT_FORMATS.find(name => name === options.format)
  if (!format) throw usageError(`--format ${options.format} is not one of ${EXPORT_FORMATS.join(', ')}.`)
  const workspace = await findWorkspace(client, { workspace: login.workspace, signal })
  if (!workspace)
    throw usageError('Name the workspace: the key is of the organization.', 'SLIPWAY_WORKSPACE=ID slipway export')
  const chunks = encode(writeExport(client, workspace, format, { signal }))
  if (options.output === undefined) return writeToStdout(chunks, signal)
  const bytes = await writeFile(options.output, chunks, done => out.progress(`Exported ${formatBytes(done)}`))
  out.progress('')
  const left_out = [...LEFT_OUT, ...listUnreadable(workspace)]
  out.emit({ type: 'result', outcome: 'exported', file: options.output, format, bytes, left_out }, () =>
    [`Exported ${formatBytes(bytes)} to ${options.output}. Not in it:`, ...left_out.map(what => `- ${what}`)].join(
      '\n',
    ),
  )
}

async function* encode(parts: AsyncIterable<string>): AsyncGenerator<Uint8Array> {
  const utf8 = new TextEncoder()
  for await (const part of parts) yield utf8.encode(part)
}
