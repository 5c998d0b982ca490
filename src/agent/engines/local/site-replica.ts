// The copy of a revision that is a static site. It has no process: the router serves its files.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { manifestFile } from '../../site/site-manifest.ts'
import { readJson, writeJson } from '../../system/files.ts'
import type { Health, OutputLine, Replica, ReplicaUsage } from './replica.ts'

type SavedSite = { folder: string; revision: string }

export class SiteReplica implements Replica {
  readonly lastLines: string[] = []
  endReason: string | undefined
  hasKillReason = false
  onExit = () => {}
  readonly #file: string
  readonly #saved: SavedSite

  private constructor(file: string, saved: SavedSite) {
    this.#file = file
    this.#saved = saved
  }

  /** `revisionFolder` records it for the next agent. */
  static launch(revisionFolder: string, saved: SavedSite): SiteReplica {
    const file = recordIn(revisionFolder)
    writeJson(file, saved)
    return new SiteReplica(file, saved)
  }

  static adopt(revisionFolder: string): SiteReplica | undefined {
    const file = recordIn(revisionFolder)
    const saved = readJson<SavedSite>(file)
    return saved && new SiteReplica(file, saved)
  }

  async probe(): Promise<Health> {
    const { folder, revision } = this.#saved
    return fs.existsSync(manifestFile(folder))
      ? { ok: true, target: { site: folder, revision } }
      : { ok: false, reason: 'the files of the site are gone: deploy it again' }
  }

  async usage(): Promise<ReplicaUsage> {
    return { cpu_ms: 0, memory_bytes: 0 }
  }

  readLines(): OutputLine[] {
    return []
  }

  kill(): void {
    if (this.endReason) return
    this.endReason = 'was stopped'
    queueMicrotask(() => this.onExit())
  }

  async end(): Promise<void> {
    this.onExit = () => {}
  }

  forget(): void {
    fs.rmSync(this.#file, { force: true })
  }

  release(): void {}
}

const recordIn = (revisionFolder: string) => join(revisionFolder, 'site.json')
