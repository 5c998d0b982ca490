// `slipway repos`: the repositories that the git hosts of a workspace give access to.
import type { Reply } from '../../client/client.ts'
import type { Declaration } from '../declaration.ts'
import { CommandFailure, EXIT, usageError } from '../failure.ts'
import { findOne } from '../find.ts'
import type { Session } from '../session.ts'
import { parseCount } from '../times.ts'

export const declaration: Declaration = {
  arguments: '[integration]',
  summary: 'list the repositories of a git host',
  options: command =>
    command
      .option('--filter <text>', 'only those with this text in their name')
      .option('--limit <number>', 'how many', '100'),
}

type Flags = { filter?: string; limit: string }
const REPOSITORIES = 'GET /v1/integrations/forge/githost/{integration_id}/repos'
type Integration = Reply<'GET /v1/integrations/forge/githost/install'>[number]
type Repository = Reply<typeof REPOSITORIES>[number]

/** The limit of the API. */
const MAX_REPOSITORIES = 10_000

export async function run(session: Session, options: Flags, [wanted]: [string?]) {
  const { client, out, signal } = session
  const limit = parseCount(options.limit, '--limit', MAX_REPOSITORIES)
  const { id, name } = await findIntegration(session, wanted)
  const query = { limit, ...(options.filter && { name_contains: options.filter }) }
  const repositories = await client.call(REPOSITORIES, { params: { integration_id: id }, query, signal })
  const columns = {
    repository: (one: Repository) => `${one.owner}/${one.name}`,
    branch: (one: Repository) => one.default_branch,
    url: (one: Repository) => one.url,
  }
  out.table(repositories, columns, `${name} gives access to no ${options.filter ? 'such repository' : 'repository'}.`)
  if (repositories.length === limit) out.note(`These are the first ${limit}. Use --filter, or a higher --limit.`)
}

/** The integration that is named, or the only one. With several, it shows their list and fails. */
async function findIntegration(session: Session, wanted: string | undefined): Promise<Integration> {
  const { client, out, signal } = session
  const integrations = await client.call('GET /v1/integrations/forge/githost/install', { signal })
  const [only, ...others] = integrations
  const names = (one: Integration) => [one.name]
  const about = { kind: 'git host', code: 'integration_not_found', names, list: 'slipway repos' }
  if (wanted !== undefined) return findOne(integrations, wanted, about)
  if (only && others.length === 0) return only
  if (!only) {
    const message = 'This workspace is connected to no git host. Connect one as docs/deploy/from-git.md says.'
    throw new CommandFailure(EXIT.failed, about.code, message)
  }
  const columns = {
    name: (one: Integration) => one.name,
    host: (one: Integration) => one.host,
    address: (one: Integration) => one.base_url,
    state: (one: Integration) => one.state,
    id: (one: Integration) => one.id,
  }
  out.table(integrations, columns, '')
  throw usageError('This workspace has several git hosts. Name one.', `slipway repos ${only.name}`)
}
