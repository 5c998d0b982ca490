// A repository of the git hosts that the workspace is connected to, by its URL or name.
import type { Reply } from '../client/client.ts'
import { CommandFailure, EXIT, usageError } from './failure.ts'
import type { Session } from './session.ts'

export type Repository = Reply<'GET /v1/integrations/forge/githost/{integration_id}/repos'>[number]

/** `git@host:owner/name.git` and `ssh://` are what people copy, too. */
const toWebUrl = (text: string): string =>
  text
    .replace(/^(ssh:\/\/)?git@([^:/]+)(:\d+)?[:/]/, 'https://$2/')
    .replace(/\/$/, '')
    .replace(/\.git$/, '')
    .toLowerCase()

export async function findRepository(session: Session, wanted: string): Promise<Repository> {
  const { client, signal } = session
  const integrations = await client.call('GET /v1/integrations/forge/githost/install', { signal })
  if (integrations.length === 0) {
    const message = 'This workspace is connected to no git host. Connect one first: docs/deploy/from-git.md says how.'
    throw new CommandFailure(EXIT.failed, 'no_git_host', message)
  }
  const address = toWebUrl(wanted)
  const name_contains = address.split('/').at(-1)!
  const lists = integrations
    .filter(({ state }) => state === 'active')
    .map(({ id }) =>
      client.call('GET /v1/integrations/forge/githost/{integration_id}/repos', {
        params: { integration_id: id },
        query: { name_contains },
        signal,
      }),
    )
  const isWanted = ({ url, owner, name }: Repository) =>
    [toWebUrl(url), `${owner}/${name}`.toLowerCase(), name.toLowerCase()].includes(address)
  const found = (await Promise.all(lists)).flat().filter(isWanted)
  if (found.length === 1) return found[0]!
  if (found.length > 1)
    throw usageError(`${wanted} names several repositories: ${found.map(({ url }) => url).join(', ')}. Give its URL.`)
  const message = `No connected git host has a repository ${wanted} that it shows to Slipway.`
  throw new CommandFailure(EXIT.failed, 'repository_not_found', message, 'slipway repos')
}
