// The list of the files of a site, written at its build, so that the router reads no folder for a request.
import * as fs from 'node:fs'
import { join } from 'node:path'
import type { SiteRules } from './site-rules.ts'

export const ENCODINGS = ['br', 'gzip'] as const
export type Encoding = (typeof ENCODINGS)[number]

/** `content`: the hash of the file, and its name on the disk. `encoded`: the sizes of its compressed forms. */
export type SiteFile = { content: string; size: number; type: string; encoded: Partial<Record<Encoding, number>> }
/** `files` are pairs, because a file may be called `__proto__`. */
export type SiteManifest = SiteRules & { built_at: number; fallback: string | null; files: [string, SiteFile][] }
export type OpenSite = SiteRules & {
  folder: string
  built_at: number
  fallback: string | null
  files: Map<string, SiteFile>
}

export const manifestFile = (folder: string): string => join(folder, 'manifest.json')
export const contentFile = (folder: string, content: string, encoding?: Encoding): string =>
  join(folder, 'content', encoding ? `${content}.${encoding}` : content)

/** The lists of the sites that are served, each read at its first request. */
export class OpenSites {
  readonly #sites = new Map<string, Promise<OpenSite | undefined>>()

  open(folder: string): Promise<OpenSite | undefined> {
    const known = this.#sites.get(folder) ?? readSite(folder)
    this.#sites.set(folder, known)
    void known.then(site => !site && this.forget(folder))
    return known
  }

  forget(folder: string): void {
    this.#sites.delete(folder)
  }

  keepOnly(folders: Set<string>): void {
    for (const folder of this.#sites.keys()) if (!folders.has(folder)) this.#sites.delete(folder)
  }
}

async function readSite(folder: string): Promise<OpenSite | undefined> {
  try {
    const manifest = JSON.parse(await fs.promises.readFile(manifestFile(folder), 'utf8')) as SiteManifest
    return { ...manifest, folder, files: new Map(manifest.files) }
  } catch {
    return undefined
  }
}
