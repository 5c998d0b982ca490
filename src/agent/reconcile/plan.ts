// Decides the next actions for a deployment, and the state to report: (wanted, observed) → actions. Pure.

/** The phase of a revision on this data plane. A revision without one has nothing here. */
export type Phase =
  | 'building'
  | 'built'
  | 'broken'
  /** Built, and its release command has not ended well. */
  | 'unreleased'
  | 'releasing'
  /** Replicas run and have not been healthy yet. */
  | 'starting'
  | 'healthy'
  /** It was healthy, and its replicas are being restarted. */
  | 'unhealthy'
  /** It was never healthy within its time, or crashed too often. Replicas may still run. */
  | 'failing'
  /** It was given up and has no replicas. */
  | 'failed'
  /** It gets no new requests and still answers earlier ones. */
  | 'draining'
  | 'drained'

export type Wanted = {
  /** False when the deployment is being deleted. */
  present: boolean
  target: string | null
  /** The serving revision as the control plane knows it. It is kept until the control plane names another. */
  serving: string | null
  database: boolean
  /** An earlier revision that runs beside the serving one for a share of the requests. */
  beside?: string | null
  /** The target gets a share of the requests, and not all of them yet. */
  isSplit?: boolean
  /** The target starts only once no other revision runs: both would use a disk of one writer. */
  replaces?: boolean
}

export type Observed = {
  revisions: Record<string, Phase>
  routed: string | null
  database: 'none' | 'coming' | 'failing' | 'ready'
  hasRemains: boolean
}

type Step = 'build' | 'release' | 'interrupt' | 'start' | 'switch' | 'drain' | 'stop' | 'give_up' | 'forget'
export type Action = { do: Step; revision: string } | { do: 'provide' } | { do: 'remove' }

/** The actions to take now, in order; none if the deployment is as wanted or something has to finish first. */
export function plan(wanted: Wanted, observed: Observed): Action[] {
  const phase = (id: string | null) => (id === null ? undefined : observed.revisions[id])
  if (!wanted.present) {
    const revisions = Object.entries(observed.revisions)
    if (revisions.length > 0) return revisions.flatMap(([id, phase]) => stepsToRemove(id, phase))
    return observed.hasRemains ? [{ do: 'remove' }] : []
  }

  const { target, serving, beside = null, isSplit = false } = wanted
  const isRevisionWanted = target !== null || serving !== null
  const actions: Action[] = []
  const isReplacing = wanted.replaces === true && target !== serving && REPLACING.has(phase(target))
  const others = Object.keys(observed.revisions).filter(id => id !== target)
  const isAlone = others.every(id => !HAS_REPLICAS.has(phase(id)))
  // A deployment has one release command at a time.
  const isReleasing = Object.values(observed.revisions).includes('releasing')
  const isWaitingForDatabase = wanted.database && observed.database !== 'ready'
  if (wanted.database && isRevisionWanted && observed.database === 'none') actions.push({ do: 'provide' })
  const best = [isSplit ? null : target, serving].find(id => phase(id) === 'healthy') ?? null
  // Its other processes start after the switch to it.
  const isCompleting = !isSplit && observed.routed === target && phase(target) === 'starting'
  const isSwitching = best !== null && best !== observed.routed && !isCompleting
  // Its workers have failed after the switch: the requests go back before it is stopped.
  const goesBack = isSwitching && phase(observed.routed) === 'failing'
  if (goesBack) actions.push({ do: 'switch', revision: best })
  for (const id of new Set([serving, target, beside])) {
    if (id === null) continue
    if (isReplacing && id === serving && phase(id) !== undefined) {
      if (HAS_REPLICAS.has(phase(id))) actions.push(...stepsToRemove(id, phase(id)!))
      continue
    }
    if (isReplacing && !isAlone && BEFORE_REPLICAS.has(phase(id))) continue
    const steps = stepsToServe(id, phase(id), id !== serving)
    if (phase(id) === 'unreleased' && isReleasing) continue
    const isReady = phase(id) === 'built' || phase(id) === 'unreleased'
    const hasNoDatabase = observed.database === 'failing' && id !== serving && isReady
    if (isWaitingForDatabase && hasNoDatabase) actions.push({ do: 'give_up', revision: id })
    else actions.push(...steps.filter(step => !(isWaitingForDatabase && NEEDS_DATABASE.has(step.do))))
  }

  if (isSwitching && !goesBack) actions.push({ do: 'switch', revision: best })

  for (const id of Object.keys(observed.revisions)) {
    if (id === target || id === serving || id === beside) continue
    // The routed revision stays until another one can take its requests.
    if (id === observed.routed && isRevisionWanted && isRunning(phase(id)) && !isReplacing) continue
    actions.push(...stepsToRemove(id, phase(id)!))
  }
  return actions
}

type MaybePhase = Phase | undefined
const BEFORE_REPLICAS = new Set<MaybePhase>(['built', 'unreleased'])
const REPLACING = new Set<MaybePhase>([...BEFORE_REPLICAS, 'releasing', 'starting', 'healthy', 'unhealthy'])
const HAS_REPLICAS = new Set<MaybePhase>(['starting', 'healthy', 'unhealthy', 'failing', 'draining', 'drained'])

const NEEDS_DATABASE = new Set<Step | 'provide' | 'remove'>(['release', 'start'])

function stepsToServe(revision: string, phase: Phase | undefined, mayFail: boolean): Action[] {
  switch (phase) {
    case undefined:
      return [{ do: 'build', revision }]
    case 'unreleased':
      return [{ do: 'release', revision }]
    case 'built':
      return [{ do: 'start', revision }]
    // The serving revision is never given up: it is restarted for as long as it is wanted.
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
    case 'releasing':
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

export type ReportedState = 'building' | 'built' | 'deploying' | 'deployed' | 'failed'

/** The reported state of a revision in flight; null while there is nothing to report. */
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
    case 'unreleased':
    case 'releasing':
    case 'failing':
    case 'starting':
      return 'deploying'
    case 'broken':
    case 'failed':
      return 'failed'
    case 'healthy':
      return observed.routed === revision ? 'deployed' : 'deploying'
    // Once it is routed it counts as deployed, so there is nothing new to report.
    case 'unhealthy':
      return observed.routed === revision ? null : 'deploying'
    default:
      return null
  }
}
