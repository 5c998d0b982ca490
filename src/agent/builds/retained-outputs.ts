// Retains the build outputs of former revisions, so that a rollback to the same commit or archive needs no build.
import * as fs from 'node:fs'
import { join } from 'node:path'
import type { Artifact, RevisionSpec } from '../engine.ts'
import { listFolder, measureMegabytes, readJson, removeRecursively } from '../system/files.ts'
import { fingerprint } from './fingerprint.ts'
import type { BuildSource } from './source-tree.ts'

/** `of`: the fingerprint of its inputs. */
export type BuildOutput = { artifact: Artifact; of: string }
export type RetainedOutput = BuildOutput & { folder: string }

/** Changes when plans say more than before: earlier outputs lack it. */
const PLAN_VERSION = 2
const RETAINED_RECORD = 'kept.json'
const MAX_RETAINED = 3
const MAX_RETAINED_MB = 2048

/** Builds with the same fingerprint have the same output; null if the inputs are not known. */
export async function fingerprintBuild(
  { deployment_id, source, secrets }: RevisionSpec,
  { git, archive, platform_config_path, root_directory, install_command, build_command }: BuildSource,
  engine: string,
  commit: string | null = git?.commit_sha ?? null,
): Promise<string | null> {
  const files = git ? commit && [git.url, commit] : archive?.sha256
  if (!files) return null
  const commands = [platform_config_path, root_directory, install_command, build_command]
  const inputs = [
    PLAN_VERSION,
    engine,
    process.version,
    process.arch,
    source,
    files,
    commands,
    Object.entries(secrets).sort(),
  ]
  return fingerprint(inputs, deployment_id)
}

export const isRetained = (folder: string) => fs.existsSync(join(folder, RETAINED_RECORD))

export function listRetained(home: string): RetainedOutput[] {
  const outputs = listFolder(home).flatMap(name => {
    const folder = join(home, name)
    const output = readJson<BuildOutput>(join(folder, RETAINED_RECORD))
    return output ? [{ output: { ...output, folder }, at: fs.statSync(join(folder, RETAINED_RECORD)).mtimeMs }] : []
  })
  return outputs.sort((a, b) => b.at - a.at).map(({ output }) => output)
}

/** Retains the output of a former revision, unless it is a reused one that is retained already. */
export async function retainOutput(
  home: string,
  folder: string,
  record: string,
  { artifact, of }: BuildOutput,
): Promise<void> {
  const retained = listRetained(home).find(output => output.of === of && output.artifact.location === artifact.location)
  const now = new Date()
  if (retained) {
    fs.utimesSync(join(retained.folder, RETAINED_RECORD), now, now)
    return removeRecursively(folder)
  }
  fs.utimesSync(record, now, now)
  fs.renameSync(record, join(folder, RETAINED_RECORD))
}

export const claimRetained = (folder: string) => fs.rmSync(join(folder, RETAINED_RECORD), { force: true })

export async function discardRetained(home: string, location: string): Promise<void> {
  for (const { folder, artifact } of listRetained(home))
    if (artifact.location === location) await removeRecursively(folder)
}

export async function pruneRetained(home: string, locationsInUse: string[]): Promise<void> {
  let [count, size] = [0, 0]
  for (const { folder, artifact } of listRetained(home)) {
    size += await measureMegabytes(folder)
    if (locationsInUse.includes(artifact.location) || (++count <= MAX_RETAINED && size <= MAX_RETAINED_MB)) continue
    await removeRecursively(folder)
  }
}
