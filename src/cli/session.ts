// The session that each command gets: the client, the output, and deployments and revisions by name or number.
import { createInterface } from 'node:readline/promises'
import { type Client, createClient, type Reply } from '../client/client.ts'
import { createRenewingFetch } from './ci-login.ts'
import { CommandFailure, EXIT, usageError } from './failure.ts'
import { createOutput, type Output } from './output.ts'
import { type Login, readLink, readLogin, type SeveralInstallations, UUID } from './settings.ts'
import { oneLine } from './terminal-text.ts'
import { USER_AGENT } from './version.ts'

export type Deployment = Reply<'GET /v2/deployments/{deployment_id}'>
export type Revision = Reply<'GET /v2/deployments/{deployment_id}/revisions/{revision_id}'>
export type GlobalOptions = { json?: boolean; yes?: boolean }
/** `folder` decides, by its link, which deployment and which running `npm run dev` is meant. */
export type Session = {
  login: Login
  client: Client
  out: Output
  signal: AbortSignal
  options: GlobalOptions
  folder: string
}

type SessionOptions = GlobalOptions & {
  /** A shell that completes a line shows no line about the installation. */
  isSilent?: boolean
}

/** The login is read on first use: `deploy --dry-run` needs none. */
export function openSession({ isSilent, ...options }: SessionOptions, signal: AbortSignal, given?: Login): Session {
  const out = createOutput({ json: options.json === true })
  let opened: { login: Login; client: Client } | undefined
  const open = () => (opened ??= openClient(given ?? readLogin(session.folder), out, signal, isSilent))
  const session: Session = {
    out,
    signal,
    options,
    folder: process.cwd(),
    get login() {
      return open().login
    },
    get client() {
      return open().client
    },
  }
  return session
}

/** `fetch` would repeat a key that no header can hold in its message. */
export function validLogin(login: Login): Login {
  const key = login.key.trim()
  if (/^[\x21-\x7e]+$/.test(key)) return { ...login, key }
  throw usageError(
    `The API key of ${login.from} is empty, or has characters that a key cannot have, such as spaces or line breaks.`,
  )
}

function openClient(given: Login, out: Output, signal: AbortSignal, isSilent = false) {
  const login = validLogin(given)
  if (!isSilent) out.installation(login)
  const { url, key, workspace, ci } = login
  const client = createClient({
    url,
    key,
    workspace,
    fetch: noteWarnings(ci ? createRenewingFetch({ ...login, ci }, out, signal) : fetch, isSilent ? undefined : out),
    headers: { 'User-Agent': USER_AGENT },
    onRetry: ({ delayMs, error }) =>
      out.note(`${(error as Error).message} Trying again in ${Math.ceil(delayMs / 1000)} s.`),
  })
  return { login, client }
}

/** Shows each warning about a read once, such as of a filter that matches nothing. A plan lists those of a write. */
function noteWarnings(send: typeof fetch, out: Output | undefined): typeof fetch {
  const shown = new Set<string>()
  return async (input, init) => {
    const response = await send(input, init)
    const header = init?.method === 'GET' ? response.headers.get('Slipway-Warnings') : null
    // A list of strings in quotes, in which quotes are escaped.
    for (const quoted of header?.slice(1, -1).split('", "') ?? []) {
      const warning = quoted.replace(/\\(.)/g, '$1')
      if (!shown.has(warning)) out?.warning(warning)
      shown.add(warning)
    }
    return response
  }
}

export async function findByName({ client, signal }: Session, name: string): Promise<Deployment | undefined> {
  for await (const deployment of client.list('GET /v2/deployments', { query: { name }, signal }))
    if (deployment.status !== 'AWAITING_DELETE') return deployment
  return undefined
}

/** The first items of a list, and whether there are more. */
export async function takeItems<Item>(list: AsyncIterable<Item>, limit: number): Promise<[Item[], boolean]> {
  const items: Item[] = []
  for await (const item of list) {
    if (items.length === limit) return [items, true]
    items.push(item)
  }
  return [items, false]
}

/** A page of a list has up to 100 items. */
export const parseLimit = (limit: string): { limit: number; page: number } => {
  if (!/^[1-9]\d{0,5}$/.test(limit)) throw usageError(`--limit ${limit} is not a number from 1 to 999999.`)
  return { limit: Number(limit), page: Math.min(100, Number(limit) + 1) }
}

/** Finds it by name or id, or by the link of this folder. */
export async function findDeployment(session: Session, wanted: string | undefined): Promise<Deployment> {
  const reference = wanted ?? readLinkedId(session)
  if (UUID.test(reference)) {
    const params = { deployment_id: reference }
    return session.client.call('GET /v2/deployments/{deployment_id}', { params, signal: session.signal })
  }
  const found = await findByName(session, reference)
  if (found) return found
  const message = `This workspace has no deployment named ${reference}.`
  throw new CommandFailure(EXIT.failed, 'deployment_not_found', message, 'slipway list')
}

function readLinkedId({ folder, client }: Session): string {
  const link = readLink(folder)
  if (!link)
    throw usageError('This folder is linked to no deployment. Name one, or link the folder.', 'slipway link NAME')
  if (link.url === client.url) return link.deployment_id
  throw usageError(
    `This folder is linked to ${link.name} at ${link.url}, and the command talks to ${client.url}. Name a deployment.`,
    'slipway list',
  )
}

/** Finds it by number or id, or returns the latest. */
export async function findRevision(session: Session, { id, name }: Deployment, wanted?: string): Promise<Revision> {
  const { client, signal } = session
  const params = { deployment_id: id }
  if (wanted !== undefined && UUID.test(wanted))
    return client.call('GET /v2/deployments/{deployment_id}/revisions/{revision_id}', {
      params: { ...params, revision_id: wanted },
      signal,
    })
  if (wanted !== undefined && !/^[1-9]\d{0,8}$/.test(wanted))
    throw usageError(`${wanted} is not the number or id of a revision.`, `slipway revisions ${name}`)
  const query = { limit: wanted === undefined ? 1 : 100 }
  for await (const revision of client.list('GET /v2/deployments/{deployment_id}/revisions', { params, query, signal }))
    if (wanted === undefined || revision.number === Number(wanted)) return revision
  const message = `${name} has no revision ${wanted ?? 'yet'}.`
  throw new CommandFailure(EXIT.failed, 'revision_not_found', message, `slipway revisions ${name}`)
}

/** Needs a terminal. */
export async function ask(question: string, signal: AbortSignal): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  // Readline takes Ctrl-C for itself.
  lines.on('SIGINT', () => process.kill(process.pid, 'SIGINT'))
  return (await lines.question(oneLine(question), { signal }).finally(() => lines.close())).trim()
}

/** Asks on a terminal. Elsewhere it throws the failure, which lists the installations. */
export async function chooseInstallation(
  several: SeveralInstallations,
  options: GlobalOptions,
  signal: AbortSignal,
): Promise<Login> {
  const { logins } = several
  const out = createOutput({ json: options.json === true })
  if (!out.isInteractive) throw several
  out.note('Several `npm run dev` are running, the newest first:')
  for (const [i, { url }] of logins.entries()) out.note(`  ${i + 1}  ${url}`)
  const answer = await ask(`Which one? [1-${logins.length}] `, signal)
  const chosen = logins[/^\d+$/.test(answer) ? Number(answer) - 1 : -1]
  if (!chosen) throw several
  return chosen
}

/** Without a terminal, only `--yes` confirms. */
export async function confirm(
  { out, options, signal }: Session,
  question: string,
  next: string,
  { byDefault = false } = {},
): Promise<void> {
  if (options.yes) return
  if (!out.isInteractive)
    throw new CommandFailure(EXIT.usage, 'confirmation_required', `${question} Confirm with --yes.`, next)
  const answer = await ask(`${question} ${byDefault ? '[Y/n]' : '[y/N]'} `, signal)
  if (answer === '' ? !byDefault : !/^y(es)?$/i.test(answer))
    throw new CommandFailure(EXIT.failed, 'declined', 'Nothing was changed.')
}
