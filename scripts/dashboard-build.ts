// Builds the dashboard into dist/dashboard: always as a command, and only when its sources changed for `npm run dev`.
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import type { Rolldown } from 'vite'
import config, { OUTPUT } from '../src/dashboard/vite.config.ts'
import { writeCloudflareRules } from '../src/host/dashboard-folder.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const SOURCES = ['src/dashboard', 'src/client']
const HASH_FILE = join(OUTPUT, 'source-hash')

function hashSources(): string {
  const hash = createHash('sha256').update(readFileSync(join(ROOT, 'package-lock.json')))
  for (const folder of SOURCES) {
    for (const entry of readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' }).sort()) {
      if (!/\.\w+$/.test(entry)) continue
      hash.update(`${folder}/${entry}\0`).update(readFileSync(join(ROOT, folder, entry)))
    }
  }
  return hash.digest('hex')
}

/** Node serves these beside the files. Cloudflare compresses by itself and ignores them. */
function compressFiles(folder: string): void {
  for (const name of readdirSync(folder)) {
    const bytes = readFileSync(join(folder, name))
    writeFileSync(join(folder, `${name}.gz`), gzipSync(bytes, { level: 9 }))
    const params = { [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length }
    writeFileSync(join(folder, `${name}.br`), brotliCompressSync(bytes, { params }))
  }
}

/** True if the build is the one of the current sources. */
export const isBuilt = (hash = hashSources()): boolean =>
  existsSync(HASH_FILE) && readFileSync(HASH_FILE, 'utf8') === hash

/** Returns the folders of the packages whose modules are in the files. */
export async function buildDashboard(logLevel: 'info' | 'warn' = 'warn'): Promise<string[]> {
  const hash = hashSources()
  const { build } = await import('vite')
  const { output } = (await build({ ...config, configFile: false, logLevel })) as Rolldown.RolldownOutput
  compressFiles(join(OUTPUT, 'assets'))
  writeCloudflareRules()
  writeFileSync(HASH_FILE, hash)
  const modules = output.flatMap(file => (file.type === 'chunk' ? file.moduleIds : []))
  const folders = modules.flatMap(id => /node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(id)?.[0] ?? [])
  return [...new Set(folders)].sort()
}

if (import.meta.main) {
  const isOptional = process.argv.includes('--if-stale')
  if (!isOptional || !isBuilt()) await buildDashboard(isOptional ? 'warn' : 'info')
}
