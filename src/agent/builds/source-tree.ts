// Loads the files and the runtime configuration of a source: a repository, an archive or a template.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parse } from 'smol-toml'
import { applicationRoot, configurationPathOf } from '../../build-plan/application-root.ts'
import { toDisks, toSchedules } from '../../build-plan/explicit-start.ts'
import { PermanentError, type SourceTree } from '../engine.ts'
import { listFolder } from '../system/files.ts'
import { findApplicationVersion } from './application-version.ts'
import { ARCHIVE_LIMITS, type ArchiveSource, downloadArchive, unpackArchive } from './archive.ts'
import { type Checkout, checkOutCommit, type GitSource } from './git-checkout.ts'
import { readRuntimeConfiguration } from './runtime-configuration.ts'

/** Exactly one of the first three members is set. */
export type BuildSource = {
  git: GitSource | null
  archive: ArchiveSource | null
  template_id: string | null
  platform_config_path: string | null
  root_directory?: string | null
  install_command: string | null
  build_command: string | null
}
type Options = Parameters<typeof checkOutCommit>[1] & { templates?: string }

export const TEMPLATES_FOLDER = fileURLToPath(new URL('../../../examples/', import.meta.url))

export async function loadSourceTree(source: BuildSource, options: Options): Promise<SourceTree> {
  const { folder, task } = options
  const { commit, faults } = await fetchFiles(source, options)
  task.signal.throwIfAborted()
  const path = configurationPathOf(source)
  const configuration = readRuntimeConfiguration(folder, path)
  if (!configuration && source.platform_config_path)
    task.log(`The source has no \`${path}\`. How it is built is found from its other files.`, 'WARNING')
  const root = applicationRoot(source.root_directory, source.platform_config_path ?? (configuration && path))
  const { start_command, health_path, env, install_command, build_command, site } = configuration ?? {}
  const { release_command = null, release_timeout_seconds = null, processes, schedules, disks } = configuration ?? {}
  const installs = source.install_command ?? install_command ?? null
  // Its commands may fetch the files: until they were fetched here, that was the only way.
  if (faults.length > 0 && installs === null) throw new PermanentError(faults.join('\n'))
  for (const fault of faults) task.log(fault, 'WARNING')
  return {
    folder,
    commit,
    version: configuration?.version ?? findApplicationVersion(folder, root, source.git?.ref),
    root,
    configuration_path: configuration ? path : null,
    start_command: start_command ?? null,
    health_path: health_path ?? null,
    sleep_path: configuration?.sleep_path ?? null,
    protocol: configuration?.protocol ?? null,
    env: env ?? {},
    install_command: installs,
    build_command: source.build_command ?? build_command ?? null,
    release_command,
    release_timeout_seconds,
    processes: Object.entries(processes ?? {}).map(([name, type]) => ({ name, ...withoutNulls(type) })),
    schedules: toSchedules(schedules),
    disks: toDisks(disks),
    site: site ? { folder: site.folder, fallback: site.fallback ?? null } : null,
  }
}

const withoutNulls = <T extends object>(value: T) =>
  Object.fromEntries(Object.entries(value).filter(([, member]) => member !== null)) as {
    [K in keyof T]: Exclude<T[K], null>
  }

/** It has examples that are no templates. */
function isFolderOfFolders(folder: string): boolean {
  try {
    const entries = fs.readdirSync(folder, { withFileTypes: true })
    return entries.length > 0 && entries.every(entry => entry.isDirectory())
  } catch {
    return false
  }
}
export const listTemplates = (folder = TEMPLATES_FOLDER): string[] =>
  listFolder(folder)
    .filter(name => !name.includes('.') && !isFolderOfFolders(join(folder, name)))
    .sort()

const MAX_DESCRIPTION = 256

/** The descriptions of templates by name, cut to what the API accepts. A template without a description is left out. */
export function describeTemplates(folder = TEMPLATES_FOLDER): Record<string, string> {
  const describe = (name: string): [string, string][] => {
    try {
      const description = readDescription(join(folder, name))
      const text = typeof description === 'string' ? description.replaceAll('\0', '').slice(0, MAX_DESCRIPTION) : ''
      return text === '' ? [] : [[name, text.toWellFormed()]]
    } catch {
      return []
    }
  }
  return Object.fromEntries(listTemplates(folder).flatMap(describe))
}

function readDescription(template: string): unknown {
  const project = join(template, 'pyproject.toml')
  if (fs.existsSync(project)) return Object(parse(fs.readFileSync(project, 'utf8')).project).description
  return JSON.parse(fs.readFileSync(join(template, 'package.json'), 'utf8')).description
}

const NO_CHECKOUT = { commit: null, faults: [] }

async function fetchFiles(
  { git, archive, template_id }: BuildSource,
  options: Options,
): Promise<Checkout | typeof NO_CHECKOUT> {
  const { folder, task, disk_mb, templates } = options
  if (git) return checkOutCommit(git, options)
  if (archive) {
    const file = `${folder}.tgz`
    await downloadArchive(archive, file, task)
    task.log('Unpacking the archive')
    await unpackArchive(file, folder, task, { ...ARCHIVE_LIMITS, megabytes: disk_mb })
    fs.rmSync(file, { force: true })
    return NO_CHECKOUT
  }
  const gallery = listTemplates(templates)
  if (!template_id || !gallery.includes(template_id))
    throw new PermanentError(
      `There is no template \`${template_id}\`. Correct \`template_id\`: choose one of ${gallery.join(', ')}.`,
    )
  await fs.promises.cp(join(templates ?? TEMPLATES_FOLDER, template_id), folder, { recursive: true })
  return NO_CHECKOUT
}
