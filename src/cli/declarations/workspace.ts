// Commands about the workspace as a whole, and any request of the API.
import type { ApplyFlags } from '../commands/apply.ts'
import type { AuditFilters, ExportOptions, ListOptions } from '../commands/audit.ts'
import type { EventOptions } from '../commands/events.ts'
import type { ExportOptions as WorkspaceExportOptions } from '../commands/export.ts'
import type { ListenOptions } from '../commands/webhook-listen.ts'
import type { CreateOptions } from '../commands/webhooks.ts'
import { collect, type Declare, withDocuments } from '../declaration.ts'

const loadAudit = () => import('../commands/audit.ts')
const loadWebhooks = () => import('../commands/webhooks.ts')

export function declareWorkspace({ program, command, group, section }: Declare): void {
  section('Workspace:')
  command<EventOptions>(program, 'events', 'show what happened in the workspace', async (session, options) =>
    (await import('../commands/events.ts')).showEvents(session, options),
  )
    .option('-f, --follow', 'go on with events as they happen')
    .option('--type <types>', 'only these types, such as deployment.*, separated by commas')
    .option('--subject <id>', 'only events about this resource')
    .option('--since <time>', 'from this time on, such as 2h or 2026-11-22T12:00:00Z')
    .option('--after <number>', 'after the event with this number')
    .option('--limit <number>', 'how many. Default: the 20 newest, or all with --since or --after')

  const audit = group('audit', 'the audit log of the organization')
  const withFilters = (one: ReturnType<typeof command>) =>
    one
      .option('--since <time>', 'from this time on, such as 2h or 2026-11-22', '30d')
      .option('--until <time>', 'up to this time. Default: now')
      .option('--operation <name>', 'only this operation. Can be repeated', collect)
      .option('--actor <id>', 'only what this key, person or listener did')
      .option('--subject <id>', 'only what changed this resource')
  withFilters(
    command<ListOptions & AuditFilters>(audit, 'list', 'list writes and refused requests', async (session, options) =>
      (await loadAudit()).listAuditLog(session, options),
    ),
  ).option('--limit <number>', 'how many of the newest', '20')
  withFilters(
    command<ExportOptions>(audit, 'export', 'write them to standard output or a file', async (session, options) =>
      (await loadAudit()).exportAuditLog(session, options),
    ),
  )
    .option('--format <format>', 'ndjson, csv or ocsf', 'ndjson')
    .option('--output <file>', 'a file that is readable by you only')

  withDocuments(
    command<ApplyFlags>(program, 'apply', 'make the workspace as documents declare it', async (session, options) =>
      (await import('../commands/apply.ts')).apply(session, options),
    ),
  )
    .option('--plan-digest <digest>', 'apply the plan that `slipway diff -f` showed, or nothing')
    .option('--wait', 'follow the new revisions until they serve')
    .option('--timeout <seconds>', 'how long to follow each revision', '900')
  command<WorkspaceExportOptions>(program, 'export', 'write the workspace as one file', async (session, options) =>
    (await import('../commands/export.ts')).exportToFile(session, options),
  )
    .option('-o, --output <file>', 'a file that is readable by you only. Default: standard output')
    .option('--format <format>', 'yaml or json', 'yaml')

  const webhooks = group('webhooks', 'URLs that events are sent to')
  command(webhooks, 'list', 'list them', async session => (await loadWebhooks()).listWebhooks(session))
  command<CreateOptions>(webhooks, 'create <url>', 'create one, and show its secret', async (session, options, [url]) =>
    (await loadWebhooks()).createWebhook(session, url!, options),
  )
    .option('--type <types>', 'only these types, such as deployment.*, separated by commas')
    .option('--description <text>', 'what it is for')
    .option('--after <number>', 'begin after the event with this number')
  command(webhooks, 'delete <webhook>', 'delete one, by id or URL', async (session, _, [name]) =>
    (await loadWebhooks()).deleteWebhook(session, name!),
  )
  command(webhooks, 'ping <webhook>', 'send it a test event', async (session, _, [name]) =>
    (await loadWebhooks()).pingWebhook(session, name!),
  )
  command<ListenOptions>(webhooks, 'listen', 'forward events to a port of this machine', async (session, options) =>
    (await import('../commands/webhook-listen.ts')).listen(session, options),
  )
    .requiredOption('--forward <url>', 'where to, such as http://localhost:3000/hooks, or a port')
    .option('--type <types>', 'only these types, such as deployment.*, separated by commas')
    .option('--after <number>', 'begin after the event with this number. Default: the newest')
    .option('--secret-file <file>', 'sign with the secret in this file, or - for stdin. Default: a new one')
    .option('--allow-remote', 'allow an address that is not on this machine')

  command(program, 'mcp', 'serve MCP on standard input and output, for assistants', async session =>
    (await import('../commands/mcp.ts')).serveMcp(session),
  )

  command<{ input?: string; planDigest?: string }>(
    program,
    'api <method> <path>',
    'send any request of the API',
    async (session, options, [method, path]) =>
      (await import('../commands/api.ts')).sendRequest(session, method!, path!, options),
  )
    .option('--input <file>', 'the JSON body, or - for stdin')
    .option('--plan-digest <digest>', 'apply only the plan with this `plan_digest`')
  command(program, 'doctor [folder]', 'check this machine, the connection and the key', async (session, _, [folder]) =>
    (await import('../commands/doctor.ts')).checkAll(session, folder),
  )
}
