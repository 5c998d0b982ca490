// The members of a runtime configuration that decide what is run. An agent checks the rest, and names its faults.
import { DEFAULT_DISK_GI, TIMING_DEFAULTS } from '../protocol/defaults.ts'
import type { SourceDisk } from '../protocol/disks.ts'
import type { PlannedSchedule, ProcessType, Site } from './build-plan.ts'
import { describesGraphs } from './providers/graphs/graph-file.ts'

export type ExplicitStart = {
  path: string | null
  /** Empty: nothing listens, and the processes run alone. */
  start_command: string | null
  sleep_path?: string | null
  /** Null: the one that is found. Empty: none. */
  release_command?: string | null
  processes?: ProcessType[]
  schedules?: PlannedSchedule[]
  disks?: SourceDisk[]
  site?: Site | null
  install_command?: string | null
  build_command?: string | null
}

/** Throws a SyntaxError for a text that is not JSON. */
export function readExplicitStart(path: string, text: string | null): ExplicitStart {
  if (text === null) return { path: null, start_command: null }
  // Its members are those of another form.
  if (describesGraphs(text)) return { path, start_command: null }
  const { start_command, release_command, processes, schedules, disks, site, ...commands } = Object(JSON.parse(text))
  return {
    path,
    start_command: toText(start_command),
    sleep_path: toText(commands.sleep_path),
    release_command: toText(release_command),
    processes: toProcesses(processes),
    schedules: toSchedules(schedules),
    disks: toDisks(disks),
    site: typeof site?.folder === 'string' ? { folder: site.folder, fallback: toText(site.fallback) } : null,
    install_command: toText(commands.install_command),
    build_command: toText(commands.build_command),
  }
}

const toText = (value: unknown) => (typeof value === 'string' ? value : null)

const toProcesses = (value: unknown): ProcessType[] =>
  Object.entries(Object(value)).flatMap(([name, type]) => {
    const { command, scale, cpu, memory_mb, health_command } = Object(type)
    return typeof command === 'string' ? [{ name, command, scale, cpu, memory_mb, health_command }] : []
  })

/** Members that are left out or null have their defaults. */
export const toSchedules = (value: unknown): PlannedSchedule[] =>
  Object.entries(Object(value)).flatMap(([name, one]) => {
    const { cron, command, process: ofProcess, ...timing } = Object(one)
    if (typeof cron !== 'string' || typeof command !== 'string') return []
    const members = Object.entries(TIMING_DEFAULTS).map(([member, value]) => [member, timing[member] ?? value])
    const own = typeof ofProcess === 'string' && { process: ofProcess }
    return [{ name, cron: cron.trim(), command, ...(Object.fromEntries(members) as typeof TIMING_DEFAULTS), ...own }]
  })

export const toDisks = (value: unknown): SourceDisk[] =>
  Object.entries(Object(value)).flatMap(([name, one]) => {
    const { path, storage_gi, access_mode } = Object(one)
    if (typeof path !== 'string') return []
    return [{ name, path, storage_gi: storage_gi ?? DEFAULT_DISK_GI, ...(access_mode != null && { access_mode }) }]
  })
