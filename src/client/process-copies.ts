// The processes of a deployment with the copies that are wanted of each, for people. Pure.

type Planned = { kind: string; processes?: { name: string; scale?: number | null | undefined }[] | null | undefined }
type Resources = {
  min_scale?: number | null | undefined
  process_scale?: Record<string, number> | null | undefined
  process_scaling?: Record<string, { min_scale: number }> | null | undefined
}

/** Without a plan nothing but `web` is known, and what the deployment itself scales. */
export function listProcesses(
  plan: Planned | null | undefined,
  resources: Resources | null | undefined,
  health?: Health,
): { name: string; copies: number }[] {
  const { min_scale, process_scale, process_scaling } = resources ?? {}
  const scales: Record<string, number> = {
    ...process_scale,
    ...Object.fromEntries(Object.entries(process_scaling ?? {}).map(([name, { min_scale }]) => [name, min_scale])),
  }
  const web =
    plan?.kind === 'worker' ? [] : [{ name: 'web', copies: movedCopies('web', health) ?? Math.max(1, min_scale ?? 1) }]
  const planned = plan?.processes ?? []
  const unplanned = plan ? [] : Object.keys(scales).map(name => ({ name, scale: null }))
  const copiesOf = (name: string) => (Object.hasOwn(scales, name) ? scales[name] : undefined)
  const others = [...planned, ...unplanned].map(({ name, scale }) => ({
    name,
    copies: movedCopies(name, health) ?? copiesOf(name) ?? scale ?? 1,
  }))
  return [...web, ...others]
}

type Health =
  | { processes: { name: string; state: string; copies?: { wanted: number } | undefined }[] }
  | null
  | undefined
/** The copies of a process, if they move by themselves. */
const movedCopies = (name: string, health: Health) => health?.processes.find(one => one.name === name)?.copies?.wanted

/** The health of a process in brackets; empty if it is healthy, or not known. */
export function describeProcessHealth(name: string, health: Health): string {
  const state = health?.processes.find(one => one.name === name)?.state ?? 'healthy'
  return state === 'healthy' ? '' : ` (${state.replace('_', ' ')})`
}
