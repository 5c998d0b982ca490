// The plan of a source: its kind, and how it is built and started. Stored as JSON with the revision.
import type { SourceDisk } from '../protocol/disks.ts'

export const toolNames = [
  'node',
  'pnpm',
  'yarn',
  'bun',
  'deno',
  'graphs',
  'graphs-javascript',
  'python',
  'uv',
  'go',
  'rust',
  'java',
  'maven',
  'gradle',
  'ruby',
] as const
export type ToolName = (typeof toolNames)[number]

/**
 * `version`: as the source writes it, such as `>=20` or `3.12`. Null: any. `from`: the file that says so.
 * `isExtra`: only the file of a version manager names it, so the application may not need it.
 */
export type Tool = { name: ToolName; version: string | null; from: string | null; isExtra?: true }

/** A folder of files that the router serves. `fallback`: the file for a path without a file, as one page needs it. */
export type Site = { folder: string; fallback: string | null }

/** A process of the same build beside the one that listens. Members that it leaves out are those of the application. */
export type ProcessType = {
  name: string
  command: string
  scale?: number | undefined
  cpu?: number | undefined
  memory_mb?: number | undefined
  /** It is healthy if this ends with 0. Without it: while it runs. */
  health_command?: string | undefined
}

/** A command that runs at the times of a cron expression, while the revision serves. */
export type PlannedSchedule = {
  name: string
  cron: string
  time_zone: string
  command: string
  timeout_seconds: number
  overlap: 'skip' | 'replace' | 'allow'
  jitter_seconds: number
  retries: number
  deadline_seconds: number
  process?: string | undefined
}

export type BuildPlan = {
  provider: string
  /**
   * `web` listens on PORT; `static` is files alone; `worker` has processes that listen on nothing; `graphs` listens on
   * PORT as the server of graphs, and has a database.
   */
  kind: 'web' | 'static' | 'worker' | 'graphs'
  /** The folder of the application. The build and start commands run there. */
  root: string
  /** The file that describes its graphs, in the source. Null for any other application. */
  graph_file: string | null
  /** The folder where the install command runs: that of the nearest lock file. */
  install_root: string
  tools: Tool[]
  install: string | null
  build: string | null
  /** Null for a static site, for workers alone, and if a Dockerfile says it. */
  start: string | null
  /** Null: that of the configuration, or none. */
  health_path: string | null
  /** The path at which it is asked whether it may sleep. Null: it may whenever no request comes. */
  sleep_path: string | null
  /** Runs once per revision, before it gets requests. */
  release: string | null
  processes: ProcessType[]
  schedules: PlannedSchedule[]
  disks: SourceDisk[]
  site: Site | null
  /** Variables that the build needs. Those of the application win. */
  env: Record<string, string>
  /** Folders of programs that the source or the build makes, relative to the root, before those of the system. */
  programs: string[]
  /** Sentences: found in a file; taken for likely; will not be as somebody may expect. */
  certain: string[]
  guessed: string[]
  warnings: string[]
}

/** A provider's part of a plan. Members that it leaves out have no command, and nothing special. */
export type Proposal = Partial<Omit<BuildPlan, 'provider' | 'root'>> & {
  /** A sentence that says why the application cannot be built or started, and what to do. */
  refusal?: string
  /** With a start command it can be started. */
  lacksStart?: boolean
  /** Folders of which one could be the root. */
  roots?: string[]
  /** Another language may own the folder: package.json may only bring tools for the assets of a Django project. */
  isUncertain?: boolean
}

/** The source can be planned with a start command, or with one of these roots. */
type Remedy = { lacksStart?: boolean; roots?: string[] }

export class PlanRefused extends Error {
  override name = 'PlanRefused'
  readonly remedy: Remedy
  constructor(message: string, remedy: Remedy = {}) {
    super(message)
    this.remedy = remedy
  }
}
