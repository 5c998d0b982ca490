// What has to be done so that a data plane comes to what is wanted: (wanted, observed) → actions, and what is told of it. Pure.

/** How a revision fares here. What is not listed is not here at all. */
export type Phase =
  | 'building'
  /** What it runs from is there; it does not run. */
  | 'built'
  /** Its build failed, for good. */
  | 'broken'
  /** Its copies run, and were not healthy yet. */
  | 'starting'
  | 'healthy'
  /** It was healthy once, and is being brought back. */
  | 'unhealthy'
  /** It was never healthy, and too much time or too many crashes have passed. Copies may still be there. */
  | 'failing'
  /** It was given up, and has no copies. */
  | 'failed'
  /** It gets no new requests; some are still being answered. */
  | 'draining'
  | 'drained'

export type Wanted = {
  /** False when the deployment is being deleted. */
  present: boolean
  /** The revision whose turn it is; null when none is in flight, also after an interruption. */
  target: string | null
  /** The revision that serves as far as the control plane knows: to be kept until it says otherwise. */
  serving: string | null
  /** Whether it is to have a database before anything of it starts. */
  database: boolean
}

export type Observed = {
  revisions: Record<string, Phase>
  /** The revision that gets the requests. */
  routed: string | null
  database: 'none' | 'coming' | 'failing' | 'ready'
  /** Whether anything else of the deployment is left: files, a route, a namespace's objects. */
  hasRemains: boolean
}

type Step = 'build' | 'interrupt' | 'start' | 'switch' | 'drain' | 'stop' | 'give_up' | 'forget'
export type Action = { do: Step; revision: string } | { do: 'provide' } | { do: 'remove' }

/**
 * Actions that can be taken now, in this order; when they have been, or anything has changed, it is asked again.
 * An empty answer means that everything is as wanted, or that something is to be waited for.
 */
export function plan(wanted: Wanted, observed: Observed): Action[] {
  const phase = (id: string | null) => (id === null ? undefined : observed.revisions[id])
  if (!wanted.present) {
    const goings = Object.keys(observed.revisions).flatMap(id => stepsToRemove(id, observed.revisions[id]!))
    if (Object.keys(observed.revisions).length > 0) return goings
    return observed.hasRemains ? [{ do: 'remove' }] : []
  }

  const { target, serving } = wanted
  const awaited = target !== null || serving !== null
  const actions: Action[] = []
  const held = wanted.database && observed.database !== 'ready'
  if (wanted.database && awaited && observed.database === 'none') actions.push({ do: 'provide' })
  // Both may be there: the new one comes beside the old, which keeps serving until the control plane says otherwise.
  for (const id of new Set([serving, target]))
    if (id !== null) {
      const steps = stepsToServe(id, phase(id), id === target && id !== serving)
      // What waits for a database that does not come is not left waiting in silence.
      const lost = held && observed.database === 'failing' && id !== serving && phase(id) === 'built'
      if (lost) actions.push({ do: 'give_up', revision: id })
      else actions.push(...steps.filter(step => !(held && step.do === 'start')))
    }

  const best = [target, serving].find(id => phase(id) === 'healthy') ?? null
  if (best !== null && best !== observed.routed) actions.push({ do: 'switch', revision: best })

  for (const id of Object.keys(observed.revisions)) {
    if (id === target || id === serving) continue
    // The one that gets the requests stays for as long as another one is on its way to take them over.
    if (id === observed.routed && awaited && isRunning(phase(id))) continue
    actions.push(...stepsToRemove(id, phase(id)!))
  }
  return actions
}

function stepsToServe(revision: string, phase: Phase | undefined, mayFail: boolean): Action[] {
  switch (phase) {
    case undefined:
      return [{ do: 'build', revision }]
    case 'built':
      return [{ do: 'start', revision }]
    // What serves is never given up: it is tried again for as long as it is wanted.
    case 'failing':
      return mayFail ? [{ do: 'give_up', revision }] : []
    case 'failed':
      return mayFail ? [] : [{ do: 'start', revision }]
    case 'drained':
      return [{ do: 'stop', revision }]
    default:
      return []
  }
}

function stepsToRemove(revision: string, phase: Phase): Action[] {
  switch (phase) {
    case 'building':
      return [{ do: 'interrupt', revision }]
    case 'healthy':
    case 'unhealthy':
      return [{ do: 'drain', revision }]
    case 'starting':
    case 'failing':
    case 'drained':
      return [{ do: 'stop', revision }]
    case 'draining':
      return []
    default:
      return [{ do: 'forget', revision }]
  }
}

const isRunning = (phase: Phase | undefined) => phase === 'healthy' || phase === 'unhealthy'

// ---- what is told

export type ReportedState = 'building' | 'built' | 'deploying' | 'deployed' | 'failed'

/** What is said of a revision in flight; null while there is nothing to say. */
export function reportedStateOf(
  revision: string,
  { builds, observed }: { builds: boolean; observed: Pick<Observed, 'revisions' | 'routed'> },
): ReportedState | null {
  const phase = observed.revisions[revision]
  switch (phase) {
    case 'building':
      return builds ? 'building' : 'deploying'
    case 'built':
      return builds ? 'built' : 'deploying'
    case 'failing':
    case 'starting':
      return 'deploying'
    case 'broken':
    case 'failed':
      return 'failed'
    case 'healthy':
      return observed.routed === revision ? 'deployed' : 'deploying'
    // It serves as soon as it was switched to, whatever happens to it afterwards.
    case 'unhealthy':
      return observed.routed === revision ? null : 'deploying'
    default:
      return null
  }
}
