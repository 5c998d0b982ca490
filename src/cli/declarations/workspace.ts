// Commands about the workspace, and any request of the API.
import type { EventOptions } from '../commands/events.ts'
import type { Declare } from '../declaration.ts'

export function declareWorkspace({ program, command, section }: Declare): void {
  section('Workspace:')
  command<EventOptions>(program, 'events', 'show what happened in the workspace', async (session, options) =>
    (await import('../commands/events.ts')).showEvents(session, options),
  )
    .option('-f, --follow', 'go on with events as they happen')
    .option('--type <types>', 'only these types, such as deployment.*, separated by commas')
    .option('--limit <number>', 'how many of the newest events to begin with', '20')
  command<{ input?: string }>(
    program,
    'api <method> <path>',
    'send any request of the API',
    async (session, options, [method, path]) =>
      (await import('../commands/api.ts')).sendRequest(session, method!, path!, options),
  ).option('--input <file>', 'the JSON body, or - for stdin')
}
