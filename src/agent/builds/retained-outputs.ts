// What builds made for revisions that are gone, kept for a while: a revision of the same commit or archive, as after a rollback, takes it and builds nothing.
import * as fs from 'node:fs'
import { join } from 'node:path'
import type { Artifact, RevisionSpec } from '../engines/engine.ts'
import { listFolder, measureMegabytes, readJson, removeRecursively } from '../system/files.ts'
import { fingerprint } from './fingerprint.ts'
import type { BuildSource } from './source-tree.ts'

/** `of`: what it was made of. */
export type BuildOutput = { artifact: Artifact; of: string }
export type RetainedOutput = BuildOutput & { folder: string }

const RETAINED_RECORD = 'kept.json'
const MAX_RETAINED = 3
const MAX_RETAINED_MB = 2048

/** Two builds of which this is the same come to the same; null where that is not known. */
export async function fingerprintBuild(
  { deployment_id, source, secrets }: RevisionSpec,
  { git, archive, platform_config_path, install_command, build_command }: BuildSource,
  engine: string,
  commit: string | null = git?.commit_sha ?? null,
): Promise<string | null> {
  const files = git ? commit && [git.url, commit] : archive?.sha256
  if (!files) return null
  const commands = [platform_config_path, install_command, build_command]
  const all = [engine, process.version, process.arch, source, files, commands, Object.entries(secrets).sort()]
  return fingerprint(all, deployment_id)
}

export const isRetained = (folder: string) => fs.existsSync(join(folder, RETAINED_RECORD))

/** The newest first. */
export function listRetained(home: string): RetainedOutput[] {
  const aged = listFolder(home).flatMap(name => {
    const folder = join(home, name)
    const output = readJson<BuildOutput>(join(folder, RETAINED_RECORD))
    return output ? [{ output: { ...output, folder }, at: fs.statSync(join(folder, RETAINED_RECORD)).mtimeMs }] : []
  })
  return aged.sort((one, other) => other.at - one.at).map(({ output }) => output)
}

/** The revision of that record is gone. What it made stays, unless it was taken from what is kept already. */
export async function retainOutput(
  home: string,
  folder: string,
  record: string,
  { artifact, of }: BuildOutput,
): Promise<void> {
  const before = listRetained(home).find(kept => kept.of === of && kept.artifact.location === artifact.location)
  const now = new Date()
  if (before) {
    fs.utimesSync(join(before.folder, RETAINED_RECORD), now, now)
    return removeRecursively(folder)
  }
  fs.utimesSync(record, now, now)
  fs.renameSync(record, join(folder, RETAINED_RECORD))
}

/** It is a revision's again. */
export const claimRetained = (folder: string) => fs.rmSync(join(folder, RETAINED_RECORD), { force: true })

export async function discardRetained(home: string, location: string): Promise<void> {
  for (const { folder, artifact } of listRetained(home))
    if (artifact.location === location) await removeRecursively(folder)
}

/** The newest stay, and those that a revision runs from. */
export async function pruneRetained(home: string, used: string[]): Promise<void> {
  let [count, size] = [0, 0]
  for (const { folder, artifact } of listRetained(home)) {
    size += await measureMegabytes(folder)
    if (used.includes(artifact.location) || (++count <= MAX_RETAINED && size <= MAX_RETAINED_MB)) continue
    await removeRecursively(folder)
  }
}
