// The disks of deployments as folders that their users own. A link in the files of a revision leads to each.
import { execFile } from 'node:child_process'
import * as fs from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { type Disk, diskVariable, listDisks, pathInApplication } from '../../../protocol/disks.ts'
import { PermanentError, type RevisionSpec, type WriteLog } from '../../engine.ts'
import { listFolder, measureMegabytes, removeRecursively } from '../../system/files.ts'
import { makeEnterable, makeOwned, makePassable, type User } from '../../system/users.ts'
import { DiskSizes } from '../local/disk-sizes.ts'
import { archiveFolder, asUser, extractArchive } from './folder-archive.ts'

const ARCHIVE = 'disk.tar'
/** Runs as the user of the deployment, who could redirect the agent by links. `$1`: the path, `$2`: the disk. */
const LINK_SCRIPT = [
  'set -e',
  'if [ -d "$1" ] && [ ! -L "$1" ] && [ -n "$(ls -A -- "$1")" ]; then echo hides; fi',
  'mkdir -p -- "$(dirname -- "$1")"',
  '[ -L "$1" ] || rm -rf -- "$1"',
  'ln -sfn -- "$2" "$1"',
].join('\n')

const execFileAsync = promisify(execFile)
/** The links of a revision, by the path below the folder of the application. */
export const linksOf = ({ resources }: Pick<RevisionSpec, 'resources'>): Record<string, string> =>
  Object.fromEntries(
    listDisks(resources).flatMap(({ name, paths }) => paths.map(path => [pathInApplication(path)!, name])),
  )

/** A sentence for the user; null if the disks are as this engine can make them. */
export function refuseDisks({ resources }: RevisionSpec): string | null {
  const known = new Set(listDisks(resources).map(({ name }) => name))
  for (const { name, persistentVolumeClaim } of resources.volumes ?? []) {
    const claim = persistentVolumeClaim?.claimName
    if (persistentVolumeClaim != null && (typeof claim !== 'string' || !known.has(claim) || claim.length > 63))
      return `The volume \`${name}\` has no valid \`claimName\`. Use at most 63 lower-case letters, digits and hyphens.`
  }
  for (const { name, mountPath } of resources.volume_mounts ?? []) {
    if (!resources.volumes?.some(volume => volume.name === name))
      return `The mount of \`${name}\` in volume_mounts has no volume of that name. Add it to \`volumes\`.`
    if (pathInApplication(mountPath) === null)
      return (
        `The mount of \`${name}\` is outside of \`/app\`, the folder of the application, which this engine cannot ` +
        'do. Mount it below, such as `/app/media`.'
      )
  }
  const paths = Object.keys(linksOf({ resources }))
  const nested = paths.find(path => paths.some(other => other !== path && path.startsWith(`${other}/`)))
  return nested === undefined ? null : `The mount at \`/app/${nested}\` is inside of another disk. Move it out of it.`
}

/** `folder`: of the deployment. */
export class Disks {
  readonly sizes: DiskSizes
  readonly #folder: string
  readonly #user: User | undefined

  constructor(folder: string, user: User | undefined) {
    this.sizes = new DiskSizes(folder)
    this.#folder = folder
    this.#user = user
  }

  path(name: string): string {
    return join(this.#folder, 'disks', name)
  }

  list(): string[] {
    return this.sizes.list()
  }

  listFilled(): string[] {
    return this.list().filter(name => hasEntries(this.path(name)))
  }

  /** Makes those that are missing. A size may change. */
  ensure(disks: Disk[]): void {
    if (disks.length === 0) return
    makePassable(dirname(this.#folder))
    for (const folder of [this.#folder, join(this.#folder, 'disks')]) makeEnterable(folder, this.#user)
    // The record comes first: what it does not name is not removed.
    this.sizes.record(disks)
    for (const { name } of disks) makeOwned(this.path(name), this.#user)
  }

  /** After a build, in the folder of its files. What is at the path is hidden by the disk. */
  async link(tree: string, links: Record<string, string>, log: WriteLog): Promise<void> {
    for (const [path, name] of Object.entries(links)) {
      const options = { ...asUser(this.#user), cwd: tree }
      const { stdout } = await execFileAsync('/bin/sh', ['-c', LINK_SCRIPT, 'sh', path, this.path(name)], options)
      if (stdout.toString().includes('hides'))
        log(`The files of the source in \`${path}\` are not there, because the disk \`${name}\` is.`, 'WARNING')
    }
  }

  variables(disks: Disk[]): Record<string, string> {
    return Object.fromEntries(disks.map(({ name }) => [diskVariable(name), this.path(name)]))
  }

  measure(name: string): Promise<number> {
    return measureMegabytes(this.path(name), this.sizes.mostOf(name))
  }

  /** A name that is not recorded was never checked: it may be a path. */
  async remove(name: string): Promise<void> {
    if (!this.list().includes(name)) return
    await removeRecursively(this.path(name))
    this.sizes.forget(name)
  }

  /** Its content comes from another folder of the same file system. A crash in between is mended by `recover`. */
  async replace(name: string, by: string): Promise<void> {
    const old = this.#replaced(name)
    await removeRecursively(old)
    fs.renameSync(this.path(name), old)
    fs.renameSync(by, this.path(name))
    await removeRecursively(old)
  }

  /** A folder for a content that is being written. */
  async #newContent(name: string): Promise<string> {
    const folder = join(this.#folder, 'disks', `.new-${name}`)
    await removeRecursively(folder)
    makeOwned(folder, this.#user)
    return folder
  }

  async archive(name: string, folder: string, signal: AbortSignal): Promise<void> {
    if (!this.list().includes(name)) throw new PermanentError(`The deployment has no disk \`${name}\` on this agent.`)
    await archiveFolder(this.path(name), join(folder, ARCHIVE), this.#user, signal)
  }

  /** Returns a folder for `replace`. */
  async extract(name: string, folder: string, signal: AbortSignal): Promise<string> {
    if (!this.list().includes(name)) throw new PermanentError(`The deployment has no disk \`${name}\`.`)
    const content = await this.#newContent(name)
    await extractArchive(join(folder, ARCHIVE), content, this.#user, signal)
    return content
  }

  async recover(): Promise<void> {
    for (const name of this.list()) {
      const [old, now] = [this.#replaced(name), this.path(name)]
      if (!fs.existsSync(old)) continue
      if (fs.existsSync(now)) await removeRecursively(old)
      else fs.renameSync(old, now)
    }
    for (const left of listFolder(join(this.#folder, 'disks')))
      if (left.startsWith('.new-')) await removeRecursively(join(this.#folder, 'disks', left))
  }

  #replaced(name: string): string {
    return join(this.#folder, 'disks', `.old-${name}`)
  }
}

/** Reads one entry: a folder may have millions. */
function hasEntries(path: string): boolean {
  if (!fs.existsSync(path)) return false
  const folder = fs.opendirSync(path)
  try {
    return folder.readSync() !== null
  } finally {
    folder.closeSync()
  }
}
