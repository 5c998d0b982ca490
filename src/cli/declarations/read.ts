// Commands that read deployments.
import type { DiffFlags } from '../commands/apply.ts'
import type { DiffOptions } from '../commands/diff.ts'
import type { LogOptions } from '../commands/logs.ts'
import type { ListOptions } from '../commands/read.ts'
import { type Declare, withDocuments } from '../declaration.ts'

const load = () => import('../commands/read.ts')

export function declareRead({ program, command, section }: Declare): void {
  section('Look:')
  command<ListOptions>(program, 'list', 'list deployments', async (session, options) =>
    (await load()).listDeployments(session, options),
  )
    .option('--name <text>', 'only those with this text in their name')
    .option('--status <status>', 'only those with this status')
    .option('--tag <key=value...>', 'only those with this tag; all of several keys, one of several values of a key')
    .option('--limit <number>', 'how many. Default: 100 on a terminal, otherwise all')
  command(program, 'templates', 'list the templates that can be deployed', async session =>
    (await load()).listTemplates(session),
  )
  command<{ at?: string }>(
    program,
    'status [deployment]',
    'show what serves and what is on its way, now or at a moment',
    async (session, { at }, [name]) =>
      at === undefined ? (await load()).showStatus(session, name) : (await load()).showPastStatus(session, name, at),
  ).option('--at <time>', 'how it was then, such as 2h, 2026-11-22 or 2026-11-22T14:02:00Z')
  command(program, 'explain [deployment]', 'say why the latest revision does not serve', async (session, _, [name]) =>
    (await load()).explain(session, name),
  )
  command(program, 'open [deployment]', 'print the URL, and open it in a browser', async (session, _, [name]) =>
    (await load()).openUrl(session, name),
  )
  command<{ limit: string }>(program, 'revisions [deployment]', 'list revisions', async (session, { limit }, [name]) =>
    (await load()).listRevisions(session, name, limit),
  ).option('--limit <number>', 'how many', '20')
  const diff = command<DiffOptions & DiffFlags>(
    program,
    'diff [deployment] [before] [after]',
    'show what differs between two revisions, by number or id: by default, from the one that serves to the latest',
    async (session, options, words) => {
      if (options.file) return (await import('../commands/apply.ts')).showApplyDiff(session, options)
      return (await import('../commands/diff.ts')).showDifference(session, words, options)
    },
  )
    .summary('show what differs between two revisions, or what -f would change')
    .option('--exit-code', 'exit with 10 if there are differences')
  withDocuments(diff)
  command(program, 'metrics [deployment]', 'show what the copies used and answered', async (session, _, [name]) =>
    (await import('../commands/metrics.ts')).showMetrics(session, name),
  )
  command<LogOptions>(program, 'logs [deployment]', 'show log lines', async (session, options, [name]) =>
    (await import('../commands/logs.ts')).showLogs(session, name, options),
  )
    .option('-f, --follow', 'go on with lines as they arrive')
    .option('--build', 'only lines of builds')
    .option('--revision <revision>', 'only lines of this revision, by number or id')
    .option('--level <level>', 'only lines of this level or above')
    .option('--query <text>', 'only lines with this text')
    .option('--since <time>', 'only lines from this time on, such as 10m or 2h ago, or 2026-11-22T12:00:00Z')
    .option('--tail <lines>', 'how many of the newest lines to begin with. Default: 100, or all with --since')
}
