// `slipway traffic`: shows or sets how the requests of a deployment are split between two revisions.
import { pause } from '../../client/retry.ts'
import type { Declaration } from '../declaration.ts'
import { usageError } from '../failure.ts'
import { collect } from '../flags.ts'
import { describeStep } from '../rollout-lines.ts'
import { type Deployment, findRevision, type Session } from '../session.ts'
import { readDeployment } from '../variables.ts'

export const declaration: Declaration = {
  arguments: '[deployment] [revision=share...]',
  summary: 'split the requests between two revisions, such as 7=10 for 10 percent',
  options: command =>
    command
      .option('--starts-at <share>', 'the share with which each later revision starts, in percent')
      .option('--sticky <by>', 'keep a client at its revision: cookie, header:NAME, or none')
      .option('--name <revision=name>', 'serve it alone at NAME--DEPLOYMENT, too. Can be repeated', collect)
      .option('--off', 'split nothing: the newest revision takes all'),
}

type Flags = { startsAt?: string; sticky?: string; name?: string[]; off?: boolean }
type Share = { revision_id: string; share: number; name: string | null }

const EXAMPLE = 'slipway traffic shop 7=10 --sticky cookie'
const PATIENCE_MS = 10_000

export async function run(session: Session, flags: Flags, [first, ...more]: (string | undefined)[]): Promise<void> {
  // Without a name, the first of several is a revision.
  const [name, words] = first?.includes('=') ? [undefined, [first, ...more]] : [first, more]
  const { startsAt, sticky, name: names = [], off } = flags
  const isChange = words.length > 0 || names.length > 0 || off || startsAt !== undefined || sticky !== undefined
  if (off && (words.length > 0 || names.length > 0)) throw usageError('--off goes with no share and no name.', EXAMPLE)
  const { deployment, etag } = await readDeployment(session, name)
  if (!isChange) return show(session, deployment)
  const shares = off ? [] : await sharesOf(session, deployment, words as string[], names)
  const kept = deployment.traffic_settings
  const body = {
    shares,
    starts_at: startsAt === undefined ? (off ? 100 : kept.starts_at) : parseShare(startsAt),
    sticky: sticky === undefined ? kept.sticky : parseSticky(sticky),
  }
  const { client, signal } = session
  const params = { deployment_id: deployment.id }
  const headers = { 'If-Match': etag }
  const changed = await client.call('PUT /v2/deployments/{deployment_id}/traffic', { params, body, headers, signal })
  await show(session, await untilApplied(session, changed))
}

/** The rest of the shares goes to the revision that serves. Without words the shares stay. */
async function sharesOf(session: Session, deployment: Deployment, words: string[], names: string[]) {
  const shares = new Map<string, Share>()
  const isSplit = deployment.traffic.length > 1 || deployment.traffic.some(({ name }) => name !== null)
  const idOf = async (word: string) => (await findRevision(session, deployment, word)).id
  for (const { revision_id, share, name } of isSplit ? deployment.traffic : [])
    shares.set(revision_id, { revision_id, share, name })
  if (words.length > 0) {
    const known = new Map([...shares].map(([id, { name }]) => [id, name]))
    shares.clear()
    for (const word of words) {
      const [wanted, share] = split(word)
      const revision_id = await idOf(wanted)
      shares.set(revision_id, { revision_id, share: parseShare(share), name: known.get(revision_id) ?? null })
    }
    const rest = 100 - [...shares.values()].reduce((sum, { share }) => sum + share, 0)
    const active = deployment.active_revision_id
    if (rest > 0 && shares.size === 1 && active !== null && shares.has(active))
      throw usageError(
        `Revision ${split(words[0]!)[0]} serves, and gets what another one leaves. Name the other one and its share.`,
        `slipway revisions ${deployment.name}`,
      )
    if (active !== null && rest > 0 && !shares.has(active))
      shares.set(active, { revision_id: active, share: rest, name: known.get(active) ?? null })
  }
  for (const word of names) {
    const [wanted, name] = split(word)
    const revision_id = await idOf(wanted)
    const share = shares.get(revision_id)?.share ?? (shares.size === 0 ? 100 : 0)
    shares.set(revision_id, { revision_id, share, name })
  }
  return [...shares.values()]
}

function split(word: string): [string, string] {
  const [, revision, value] = /^([\w-]{1,64})=([\w-]{1,64})$/.exec(word) ?? []
  if (revision !== undefined) return [revision, value!]
  throw usageError(`\`${word}\` is not a revision and what it gets.`, EXAMPLE)
}

function parseShare(text: string): number {
  if (/^\d{1,3}$/.test(text)) return Number(text)
  throw usageError(`\`${text}\` is not a share: whole percents from 0 to 100.`, EXAMPLE)
}

function parseSticky(text: string) {
  if (text === 'none') return null
  if (text === 'cookie') return { by: 'cookie' as const }
  if (text.startsWith('header:')) return { by: 'header' as const, header: text.slice('header:'.length) }
  throw usageError(`--sticky ${text} is not cookie, header:NAME or none.`, EXAMPLE)
}

/** A revision that is still built or started gets its share later. */
async function untilApplied({ client, out, signal }: Session, changed: Deployment): Promise<Deployment> {
  const params = { deployment_id: changed.id }
  let deployment = changed
  for (const end = Date.now() + PATIENCE_MS; Date.now() < end; await pause(300, signal)) {
    if (deployment.traffic.every(({ applied, problem }) => applied || problem !== null)) return deployment
    deployment = await client.call('GET /v2/deployments/{deployment_id}', { params, signal })
  }
  out.note('The shares are not applied yet. They are once the revision is healthy.')
  return deployment
}

async function show({ client, out, signal }: Session, deployment: Deployment): Promise<void> {
  const { traffic, traffic_settings, rollout_progress, name, id: deployment_id } = deployment
  const shares = await Promise.all(
    traffic.map(async share => {
      const params = { deployment_id, revision_id: share.revision_id }
      const call = { params, signal }
      const { number } = await client.call('GET /v2/deployments/{deployment_id}/revisions/{revision_id}', call)
      return { revision: number, ...share }
    }),
  )
  out.emit({ name, traffic: shares, ...traffic_settings, rollout_progress }, () =>
    [
      ...shares.map(({ revision, share, applied, problem, url }) => {
        const state = problem ?? (applied ? '' : 'not applied yet')
        return `revision ${revision}  ${share} %${url ? `  ${url}` : ''}${state ? `  ${state}` : ''}`
      }),
      ...(shares.length === 0 ? [`No revision of ${name} serves yet.`] : []),
      ...(rollout_progress ? [`Rollout: ${describeStep(rollout_progress)}. More: slipway rollout ${name}`] : []),
      ...(traffic_settings.starts_at < 100 ? [`A new revision starts with ${traffic_settings.starts_at} %.`] : []),
    ].join('\n'),
  )
}
