// Plans how the files of a source are built and started, and tells the build log what was found.
import * as fs from 'node:fs'
import { join } from 'node:path'
import type { BuildPlan } from '../../build-plan/build-plan.ts'
import { PlanRefused } from '../../build-plan/build-plan.ts'
import { planBuild } from '../../build-plan/plan-build.ts'
import { readGraphEnvironment } from '../../build-plan/providers/graphs/graph-file.ts'
import { MAX_FILE_BYTES, type SourceFiles } from '../../build-plan/source-files.ts'
import { type BuildTask, PermanentError, type SourceTree } from '../engine.ts'
import { readInside } from '../system/files.ts'

/** A source rarely brings these, and no plan looks into them. Their names alone are listed. */
const CLOSED_FOLDERS = new Set(['.git', 'node_modules', '.venv', 'target', '.next'])
const MAX_LISTED = 100_000

export function planSource(
  tree: SourceTree,
  buildsImages: boolean,
  { log, onPlan }: Pick<BuildTask, 'log' | 'onPlan'>,
): BuildPlan {
  const { root = '', configuration_path: path, start_command, install_command, build_command, site = null } = tree
  const { release_command = null, sleep_path = null, processes = [], schedules = [], disks = [] } = tree
  const files = listFiles(tree.folder)
  const plan = refusedAsPermanent(() =>
    planBuild(files, {
      root,
      configuration: { path, start_command, sleep_path, site, release_command, processes, schedules, disks },
      install_command,
      build_command,
      buildsImages,
    }),
  )
  if (plan.graph_file) tree.env = { ...readGraphEnvironment(files, plan.graph_file).variables, ...tree.env }
  const { certain, guessed, warnings, tools } = plan
  for (const sentence of certain) log(sentence)
  const versions = tools.flatMap(({ name, version, from }) => (version ? `${name} ${version} (${from})` : name))
  if (versions.length > 0) log(`Tools: ${versions.join(', ')}`)
  for (const sentence of guessed) log(`Guessed: ${sentence}`)
  for (const sentence of warnings) log(sentence, 'WARNING')
  if (plan.release) log(`Release command: ${plan.release}`)
  for (const { name, command } of plan.processes) log(`Process ${name}: ${command}`)
  for (const { name, cron, command } of plan.schedules) log(`Schedule ${name} (${cron}): ${command}`)
  for (const { name, path } of plan.disks) log(`Disk ${name}: ${path}`)
  onPlan?.(plan)
  return plan
}

function refusedAsPermanent<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw error instanceof PlanRefused ? new PermanentError(error.message) : error
  }
}

function listFiles(root: string): SourceFiles {
  const paths = new Set<string>()
  const open = ['']
  for (let at = open.pop(); at !== undefined && paths.size < MAX_LISTED; at = open.pop())
    for (const entry of fs.readdirSync(join(root, at), { withFileTypes: true })) {
      const path = at === '' ? entry.name : `${at}/${entry.name}`
      if (entry.isDirectory() && !CLOSED_FOLDERS.has(entry.name)) open.push(path)
      else paths.add(path)
    }
  return { paths, read: path => (paths.has(path) ? (readInside(root, path, MAX_FILE_BYTES)?.text ?? null) : null) }
}
