// The sources of a deploy that are not on this machine: an image, a repository, a template.
import { toName } from '../client/archive-rules.ts'
import type { Reply } from '../client/client.ts'
import { ApiError } from '../client/errors.ts'
import { type DeploySource, planNew, type Variable } from './deploy-source.ts'
import { CommandFailure, EXIT, shellWord, usageError } from './failure.ts'
import type { Session } from './session.ts'

export function openImage(session: Session, image_uri: string): DeploySource {
  const source_revision_config = { image_uri }
  return {
    label: `the image ${image_uri}`,
    image: image_uri,
    argument: ` --image ${shellWord(image_uri)}`,
    suggestedName: toName(image_uri.split('@')[0]!.split('/').at(-1)!.split(':')[0]!),
    accepts: ({ source }) => source === 'internal_container' || source === 'external_container',
    patch: () => ({ source_revision_config }),
    planCreation: (name, secrets) => planNewImage(session, name, image_uri, secrets),
  }
}

export async function planNewImage(session: Session, name: string, image_uri: string, secrets: Variable[] = []) {
  const common = { name, source_revision_config: { image_uri }, secrets }
  const hosted = { ...common, source: 'internal_container' as const, source_config: {} }
  // The mode of the installation decides between the two sources of images, and only its answer tells the mode.
  const planned = await planNew(session, hosted).catch(error => {
    if (!(error instanceof ApiError) || !error.errors.some(({ type }) => type === 'source_mode')) throw error
  })
  if (planned) return planned
  const body = { ...common, source: 'external_container' as const, source_config: { resource_spec: {} } }
  return planNew(session, body)
}

export async function openRepository(
  session: Session,
  wanted: string,
  { branch, root }: { branch?: string | undefined; root?: string | undefined },
): Promise<DeploySource> {
  const {
    url: repo_url,
    name,
    host_integration_id: integration_id,
    default_branch,
  } = await findRepository(session, wanted)
  if (branch === undefined && default_branch === '')
    throw usageError(`The default branch of ${repo_url} is not known yet. Name a branch with --branch.`)
  return {
    label: `the repository ${repo_url}`,
    argument: ` --repo ${shellWord(wanted)}${option('branch', branch)}${option('root', root)}`,
    suggestedName: toName(name),
    accepts: ({ source, source_config }) => source === 'githost' && source_config.repo_url === repo_url,
    // Deploys the newest commit, also of the branch that serves.
    patch: ({ source_revision_config }) => ({
      source_config: rootOf(root),
      source_revision_config: { repo_ref: branch ?? source_revision_config.repo_ref },
    }),
    planCreation: (name, secrets) =>
      planNew(session, {
        name,
        source: 'githost',
        secrets,
        source_config: { integration_id, repo_url, build_on_push: true, ...rootOf(root) },
        source_revision_config: { repo_ref: branch ?? default_branch },
      }),
  }
}

const option = (name: string, value: string | undefined) =>
  value === undefined ? '' : ` --${name} ${shellWord(value)}`

/** Sent only if it is given: the stored one stays otherwise. */
export const rootOf = (root: string | undefined) => (root === undefined ? {} : { root_directory: root })

type Repository = Reply<'GET /v1/integrations/forge/githost/{integration_id}/repos'>[number]

/** Accepts `git@host:owner/name.git` and `ssh://` too, because people copy them. */
const toWebUrl = (text: string): string =>
  text
    .replace(/^(ssh:\/\/)?git@([^:/]+)(:\d+)?[:/]/, 'https://$2/')
    .replace(/\/$/, '')
    .replace(/\.git$/, '')
    .toLowerCase()

async function findRepository(session: Session, wanted: string): Promise<Repository> {
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
  const message = `No connected git host lists a repository ${wanted}.`
  throw new CommandFailure(EXIT.failed, 'repository_not_found', message, 'slipway repos')
}

export function openTemplate(session: Session, template_id: string): DeploySource {
  return {
    label: `the template ${template_id}`,
    argument: ` --template ${shellWord(template_id)}`,
    suggestedName: toName(template_id),
    accepts: ({ source, source_config }) => source === 'internal_template' && source_config.template_id === template_id,
    patch: () => ({ source_config: { template_id } }),
    async planCreation(name, secrets) {
      await requireTemplate(session, template_id)
      const source = 'internal_template' as const
      const body = { name, source, source_config: { template_id }, source_revision_config: {}, secrets }
      return planNew(session, body)
    },
  }
}

/** A deployment of an unknown template would be created, and fail later. */
async function requireTemplate({ client, signal }: Session, wanted: string): Promise<void> {
  const { resources } = await client.call('GET /v2/templates', { query: { limit: 100 }, signal })
  const names = resources.map(({ name }) => name)
  if (names.includes(wanted)) return
  const offered = names.length > 0 ? `It offers ${names.join(', ')}.` : 'It offers none: no agent reported templates.'
  const message = `This installation has no template ${wanted}. ${offered}`
  throw new CommandFailure(
    EXIT.failed,
    'template_not_found',
    message,
    names[0] && `slipway deploy --template ${shellWord(names[0])}`,
  )
}
