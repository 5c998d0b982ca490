// Commands that read deployments.
import type { LogOptions } from '../commands/logs.ts'
import type { Declare } from '../declaration.ts'

const load = () => import('../commands/read.ts')

export function declareRead({ program, command, section }: Declare): void {
  section('Look:')
  command<{ status?: string }>(program, 'list', 'list deployments', async (session, options) =>
    (await load()).listDeployments(session, options),
  ).option('--status <status>', 'only those with this status')
  command(program, 'status [deployment]', 'show what serves and what is on its way', async (session, _, [name]) =>
    (await load()).showStatus(session, name),
  )
  command(program, 'explain [deployment]', 'say why the latest revision does not serve', async (session, _, [name]) =>
    (await load()).explain(session, name),
  )
  command(program, 'open [deployment]', 'print the URL, and open it in a browser', async (session, _, [name]) =>
    (await load()).openUrl(session, name),
  )
  command<{ limit: string }>(program, 'revisions [deployment]', 'list revisions', async (session, { limit }, [name]) =>
    (await load()).listRevisions(session, name, limit),
  ).option('--limit <number>', 'how many', '20')
  command<LogOptions>(program, 'logs [deployment]', 'show log lines', async (session, options, [name]) =>
    (await import('../commands/logs.ts')).showLogs(session, name, options),
  )
    .option('-f, --follow', 'go on with lines as they arrive')
    .option('--build', 'only lines of builds')
    .option('--revision <revision>', 'only lines of this revision, by number or id')
    .option('--level <level>', 'only lines of this level or above')
    .option('--query <text>', 'only lines with this text')
    .option('--tail <lines>', 'how many of the newest lines to begin with', '100')
}
