// Learns which entries of the menu a workspace uses, from three sources: the reads of the page, the live events, and
// once, in a browser that knows nothing yet, the newest events of creation.
import { getClient } from '../api/client.ts'
import { queryClient } from '../api/queries.ts'
import { storeUsed, used } from './menu-entries.ts'

/** An entry is in use if a read of this path finds something, or after this event. */
const FOLDED = [
  { path: '/previews', read: '/v2/previews', event: 'preview.created' },
  { path: '/datasets', read: '/datasets', event: 'dataset.created' },
  { path: '/annotation', read: '/annotation-queues', event: 'annotation_queue.created' },
  { path: '/rules', read: '/runs/rules', event: 'rule.created' },
  { path: '/listeners', read: '/v2/listeners', event: 'listener.created' },
  { path: '/integrations', read: '/v1/integrations/forge/githost/install', event: 'integration.connected' },
  { path: '/providers', read: '/v2/auth/providers', event: 'oauth_provider.created' },
  { path: '/drains', read: '/v2/drains', event: 'drain.created' },
  { path: '/webhooks', read: '/v2/webhooks', event: 'webhook.created' },
  { path: '/models', read: '/v1/model-configurations', event: 'model_configuration.created' },
  { path: '/roles', read: undefined, event: 'workspace_member.added' },
  { path: '/audit', read: undefined, event: 'workspace_member.added' },
].map(entry => ({ ...entry, subject: entry.event.split('.')[0]! }))
/** Events of previews come by the hundred: they would push the others out of the answer. */
const EVENTS = [...new Set(FOLDED.map(({ event }) => event))].filter(event => event !== 'preview.created')
const MAX_EVENTS = 100

/** An answer may arrive after another workspace was opened. */
let open: string | undefined

type Folded = (typeof FOLDED)[number]
function learn(workspace: string, isUsed: (entry: Folded) => boolean): void {
  if (workspace !== open) return
  const known = used.peek()
  const found = FOLDED.filter(entry => !known.has(entry.path) && isUsed(entry))
  if (found.length === 0) return
  used.value = new Set([...known, ...found.map(({ path }) => path)])
  storeUsed(workspace)
}

export const learnSubject = (workspace: string, subject: string): void =>
  learn(workspace, entry => entry.subject === subject)

/** A list as an array, as a page, or as the pages that were read. */
type Answer = { length?: number; resources?: unknown[]; pages?: { items?: unknown[] }[] } | null | undefined
const hasItems = (data: Answer): boolean =>
  Boolean(data?.length || data?.resources?.length || data?.pages?.[0]?.items?.length)

/** Returns a function that stops it. */
export function startLearning(workspace: string, isKnown: boolean): () => void {
  open = workspace
  const cache = queryClient.getQueryCache()
  const learnRead = ({ queryKey: [owner, route], state }: ReturnType<typeof cache.getAll>[number]) => {
    if (owner !== workspace || typeof route !== 'string' || !hasItems(state.data as Answer)) return
    const path = route.split(' ')[1]!
    learn(workspace, ({ read }) => read === path)
  }
  for (const query of cache.getAll()) learnRead(query)
  if (!isKnown) void learnFromJournal(workspace)
  return cache.subscribe(({ query, type }) => type === 'updated' && learnRead(query))
}

async function learnFromJournal(workspace: string): Promise<void> {
  try {
    const query = { type: EVENTS, order: 'desc' as const, limit: MAX_EVENTS }
    const { resources } = await getClient().call('GET /v2/events', { query })
    const subjects = new Set(resources.map(({ subject }) => subject.type))
    learn(workspace, ({ subject }) => subjects.has(subject))
    storeUsed(workspace)
  } catch {
    // A role without `events:read`: the entries appear as they are read.
  }
}
