// What builds made for revisions that are gone, kept for a while: a revision of the same commit or archive, as after a rollback, takes it and builds nothing.
import * as fs from 'node:fs'
import { join } from 'node:path'
import type { Artifact, Unit } from '../engines/engine.ts'
import { list, readJson, remove, sizeOf } from '../files.ts'
import { fingerprint } from './fingerprint.ts'
import type { Origin } from './tree.ts'

/** `of`: what it was made of. */
export type Output = { artifact: Artifact; of: string }
export type KeptOutput = Output & { folder: string }

const RECORD = 'kept.json'
const KEPT = 3
const KEPT_MB = 2048

/** Two builds of which this is the same come to the same; null where that is not known. */
export async function madeOf(
  { deployment_id, source, secrets }: Unit,
  { git, archive, platform_config_path, install_command, build_command }: Origin,
  engine: string,
  commit: string | null = git?.commit_sha ?? null,
): Promise<string | null> {
  const files = git ? commit && [git.url, commit] : archive?.sha256
  if (!files) return null
  const commands = [platform_config_path, install_command, build_command]
  const all = [engine, process.version, process.arch, source, files, commands, Object.entries(secrets).sort()]
  return fingerprint(all, deployment_id)
}

export const isKept = (folder: string) => fs.existsSync(join(folder, RECORD))

/** The newest first. */
export function keptIn(home: string): KeptOutput[] {
  const aged = list(home).flatMap(name => {
    const folder = join(home, name)
    const output = readJson<Output>(join(folder, RECORD))
    return output ? [{ output: { ...output, folder }, at: fs.statSync(join(folder, RECORD)).mtimeMs }] : []
  })
  return aged.sort((one, other) => other.at - one.at).map(({ output }) => output)
}

/** The revision of that record is gone. What it made stays, unless it was taken from what is kept already. */
export async function keep(home: string, folder: string, record: string, { artifact, of }: Output): Promise<void> {
  const before = keptIn(home).find(kept => kept.of === of && kept.artifact.location === artifact.location)
  const now = new Date()
  if (before) {
    fs.utimesSync(join(before.folder, RECORD), now, now)
    return remove(folder)
  }
  fs.utimesSync(record, now, now)
  fs.renameSync(record, join(folder, RECORD))
}

/** It is a revision's again. */
export const unkeep = (folder: string) => fs.rmSync(join(folder, RECORD), { force: true })

export async function drop(home: string, location: string): Promise<void> {
  for (const { folder, artifact } of keptIn(home)) if (artifact.location === location) await remove(folder)
}

/** The newest stay, and those that a revision runs from. */
export async function prune(home: string, used: string[]): Promise<void> {
  let [count, size] = [0, 0]
  for (const { folder, artifact } of keptIn(home)) {
    size += await sizeOf(folder)
    if (used.includes(artifact.location) || (++count <= KEPT && size <= KEPT_MB)) continue
    await remove(folder)
  }
}
