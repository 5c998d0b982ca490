// `slipway channels create`: creates a channel. Secrets come from a file or standard input, never from an argument.
import type { Declaration } from '../declaration.ts'
import { usageError } from '../failure.ts'
import { readSecret } from '../secret-input.ts'
import type { Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '[name]',
  summary: 'create one: --own, --email, --slack, --pagerduty or --webhook',
  options: command =>
    command
      .option('--own', 'e-mails to your own address, which only you see')
      .option('--email <address>', 'e-mails to an address, whose owner confirms it')
      .option('--slack <channel>', 'the id of a channel, such as C024BE91L, or webhook')
      .option('--pagerduty <region>', 'the service region of the account: us or eu')
      .option('--webhook <url>', 'signed messages to a URL')
      .option('--secret-file <file>', 'the bot token or incoming webhook of Slack, or the PagerDuty key; - for input')
      .option('--deploys <which>', 'deployments to tell of: none, failed or all')
      .option('--default', 'tell alerts here that name no channel'),
}

type Flags = {
  own?: boolean
  email?: string
  slack?: string
  pagerduty?: string
  webhook?: string
  secretFile?: string
  deploys?: string
  default?: boolean
}

const KINDS = ['own', 'email', 'slack', 'pagerduty', 'webhook'] as const

export async function run(session: Session, flags: Flags, [name]: [string | undefined]): Promise<void> {
  const { client, out, signal } = session
  const kinds = KINDS.filter(kind => flags[kind] !== undefined)
  if (kinds.length !== 1) throw usageError('Give one of --own, --email, --slack, --pagerduty and --webhook.')
  const [kind] = kinds as [(typeof KINDS)[number]]
  const common = {
    ...(flags.deploys && { deploys: flags.deploys as 'failed' }),
    ...(flags.default && { is_default: true }),
  }
  if (kind === 'own') {
    const created = await client.call('POST /v2/channels/own', { body: { ...(name && { name }), ...common }, signal })
    out.emit({ ...created }, () => describeCreated(created))
    return
  }
  if (!name) throw usageError('Give the channel a name.')
  const target = await readTarget(flags, kind, session)
  const created = await client.call('POST /v2/channels', { body: { name, target, ...common } as never, signal })
  if (created.secret) out.note(`Created the channel ${created.id}. Its secret is shown only now:`)
  out.emit({ ...created }, () => created.secret ?? describeCreated(created))
}

const describeCreated = ({ name, id, health }: { name: string; id: string; health: { status: string } }): string =>
  health.status === 'unconfirmed'
    ? `Created the channel ${name}. It sends once the link in the e-mail to its address is opened.`
    : `Created the channel ${name}. Test it with: slipway channels test ${id}`

async function readTarget(flags: Flags, kind: Exclude<(typeof KINDS)[number], 'own'>, { out }: Session) {
  if (kind === 'email') return { kind, address: flags.email }
  if (kind === 'webhook') return { kind, url: flags.webhook }
  const source = { ask: true, file: flags.secretFile, isInteractive: out.isInteractive }
  if (kind === 'pagerduty')
    return { kind, region: flags.pagerduty, routing_key: await readSecret('The integration key', source) }
  if (flags.slack === 'webhook') return { kind, webhook_url: await readSecret('The incoming webhook', source) }
  return { kind, slack_channel: flags.slack, bot_token: await readSecret('The token of the bot', source) }
}
