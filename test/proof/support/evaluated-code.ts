// Measures how much of the Worker is evaluated until its first answer. For this it is built into one file for each part
// that is imported by itself, and Node says which of them it reads.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'
import { type Cleanup, runForOutput } from './processes.ts'
import { makeTempFolder, PROJECT_ROOT } from './workerd.ts'

const PROGRAM = fileURLToPath(new URL('first-answer.ts', import.meta.url))

type FirstRequest = { path: string; headers: Record<string, string>; env: Record<string, string> }

/** Returns a function that measures a first request, in bytes after gzip. */
export async function buildParts(cleanup: Cleanup) {
  const folder = await makeTempFolder(cleanup)
  await build({
    entryPoints: [join(PROJECT_ROOT, 'src/host/workers.ts')],
    outdir: folder,
    // Without a package.json beside them, Node takes other files for CommonJS.
    outExtension: { '.js': '.mjs' },
    // The options of wrangler, but for the parts.
    bundle: true,
    splitting: true,
    minify: true,
    format: 'esm',
    target: 'es2024',
    logLevel: 'silent',
    conditions: ['workerd', 'worker', 'browser'],
    external: ['node:*', 'cloudflare:*'],
  })
  return async ({ path, headers, env }: FirstRequest): Promise<number> => {
    const request = { folder, entry: join(folder, 'workers.mjs'), env, path, headers }
    const text = await runForOutput(cleanup, process.execPath, [PROGRAM, JSON.stringify(request)])
    const files: string[] = JSON.parse(text)
    const parts = await Promise.all(files.map(file => readFile(file)))
    return gzipSync(Buffer.concat(parts)).length
  }
}
