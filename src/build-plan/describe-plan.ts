// A plan in a few lines, for a terminal.
import type { BuildPlan } from './build-plan.ts'

/** Pairs of a name and what it says, in the order in which things happen. */
export function describePlan({
  tools,
  install,
  build,
  release,
  start,
  processes,
  schedules,
  disks,
  site,
}: BuildPlan): [name: string, text: string][] {
  const needed = tools.map(({ name, version }) => (version === null ? name : `${name} ${version}`))
  const steps: [string, string | null][] = [
    ['tools', needed.join(', ') || null],
    ['install', install],
    ['build', build],
    ['release', release],
    ['start', start],
    ...processes.map(({ name, command }): [string, string] => [name, command]),
    ...schedules.map(({ name, cron, command }): [string, string] => [`${name} (${cron})`, command]),
    ...disks.map(({ name, path, storage_gi }): [string, string] => [`disk ${name}`, `${path}, ${storage_gi} GiB`]),
    ['files', site && (site.folder || '.')],
  ]
  return steps.flatMap(([name, text]): [string, string][] => (text === null ? [] : [[name, text]]))
}
