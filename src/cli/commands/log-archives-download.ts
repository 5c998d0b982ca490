// `slipway log-archives download`: the lines of hours as one file, oldest first, which zcat reads.
import type { Declaration } from '../declaration.ts'
import { CommandFailure, EXIT } from '../failure.ts'
import { findArchives, type LogArchive, type RangeFlags, withRange } from '../log-archives.ts'
import { formatBytes } from '../output.ts'
import { writeFile, writeToStdout } from '../output-file.ts'
import { findDeployment, type Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '[deployment]',
  summary: 'write them to standard output or a file, compressed by gzip',
  options: command => withRange(command).option('--output <file>', 'a file that is readable by you only'),
}

type Flags = RangeFlags & { output?: string }

export async function run(session: Session, flags: Flags, [name]: [string?]): Promise<void> {
  const { out, signal } = session
  const { id } = await findDeployment(session, name)
  const archives: LogArchive[] = []
  for await (const archive of findArchives(session, id, flags)) archives.unshift(archive)
  if (archives.length === 0)
    throw new CommandFailure(
      EXIT.failed,
      'log_archive_not_found',
      'There are no such archives.',
      'slipway log-archives list',
    )
  const chunks = download(session, id, archives)
  if (flags.output === undefined) return writeToStdout(chunks, signal)
  const bytes = await writeFile(flags.output, chunks, done => out.progress(`Downloaded ${formatBytes(done)}`))
  out.progress('')
  const lines = archives.reduce((sum, archive) => sum + archive.lines, 0)
  const result = { type: 'result', outcome: 'downloaded', file: flags.output, archives: archives.length, lines, bytes }
  out.emit(result, () => `Downloaded ${lines} lines to ${flags.output}, ${formatBytes(bytes)}.`)
}

/** Files of gzip one after the other are a file of gzip. */
async function* download({ client, signal }: Session, deployment_id: string, archives: LogArchive[]) {
  for (const { id: archive_id } of archives)
    yield* client.download('GET /v2/deployments/{deployment_id}/log-archives/{archive_id}', {
      params: { deployment_id, archive_id },
      signal,
    })
}
