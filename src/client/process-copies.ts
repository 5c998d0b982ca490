// The processes of a deployment with the copies that are wanted of each, for people. Pure.

type Planned = { kind: string; processes?: { name: string; scale?: number | null | undefined }[] | null | undefined }
type Resources = {
  min_scale?: number | null | undefined
  process_scale?: Record<string, number> | null | undefined
}

/** Without a plan nothing but `web` is known, and what the deployment itself scales. */
export function listProcesses(
  plan: Planned | null | undefined,
  resources: Resources | null | undefined,
  health?: Health,
): { name: string; copies: number }[] {
  const { min_scale, process_scale = {} } = resources ?? {}
  const scales = process_scale ?? {}
  const web =
    plan?.kind === 'worker' ? [] : [{ name: 'web', copies: movedCopies(health) ?? Math.max(1, min_scale ?? 1) }]
  const planned = plan?.processes ?? []
  const unplanned = plan ? [] : Object.keys(scales).map(name => ({ name, scale: null }))
  const copiesOf = (name: string) => (Object.hasOwn(scales, name) ? scales[name] : undefined)
  const others = [...planned, ...unplanned].map(({ name, scale }) => ({ name, copies: copiesOf(name) ?? scale ?? 1 }))
  return [...web, ...others]
}

type Health =
  | { processes: { name: string; state: string; copies?: { wanted: number } | undefined }[] }
  | null
  | undefined
/** The copies of `web`, if they move by themselves. */
const movedCopies = (health: Health) => health?.processes.find(({ name }) => name === 'web')?.copies?.wanted

/** The health of a process in brackets; empty if it is healthy, or not known. */
export function describeProcessHealth(name: string, health: Health): string {
  const state = health?.processes.find(one => one.name === name)?.state ?? 'healthy'
  return state === 'healthy' ? '' : ` (${state.replace('_', ' ')})`
}
