// The files of the dashboard in a folder, where a file may have a compressed copy beside it.
import { copyFileSync, mkdirSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { extname, join } from 'node:path'
import type { BuiltFiles } from '../platform.ts'
import { PROJECT_ROOT } from './home-folder.ts'
import { toWebStream } from './web-stream.ts'

export const DASHBOARD_FOLDER = join(PROJECT_ROOT, 'dist/dashboard/ui')

/** wrangler reads this folder also before a build, with the rules of Cloudflare for its files. */
export function writeCloudflareRules(): void {
  const folder = join(DASHBOARD_FOLDER, '..')
  mkdirSync(folder, { recursive: true })
  for (const name of ['_headers', '.assetsignore'])
    copyFileSync(join(PROJECT_ROOT, 'src/dashboard/cloudflare', name), join(folder, name))
}

const TYPES: Record<string, string> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json',
  '.svg': 'image/svg+xml',
}
const ENCODINGS = [
  ['br', '.br'],
  ['gzip', '.gz'],
] as const
const FILE_NAME = /^(assets\/)?[\w-][\w.-]*$/

async function openFile(path: string) {
  const file = await open(path).catch((error: NodeJS.ErrnoException) => {
    if (['ENOENT', 'ENOTDIR'].includes(error.code ?? '')) return null
    throw error
  })
  const stat = await file?.stat()
  if (file && stat?.isFile()) return { file, size: stat.size, modified: stat.mtimeMs }
  await file?.close()
  return null
}

const acceptsEncoding = (header: string, name: string): boolean =>
  header.split(',').some(item => {
    const [coding, quality] = item.split(';').map(part => part.trim())
    return coding === name && Number(quality?.replace('q=', '') ?? 1) > 0
  })

export const createFolderFiles = (folder: string): BuiltFiles => ({
  async get(path, acceptEncoding = '') {
    const type = TYPES[extname(path)]
    if (!type || !FILE_NAME.test(path)) return null
    for (const [encoding, suffix] of [...ENCODINGS, [undefined, ''] as const]) {
      if (encoding && !acceptsEncoding(acceptEncoding, encoding)) continue
      const opened = await openFile(join(folder, path) + suffix)
      if (!opened) continue
      const { file, size, modified } = opened
      const headers = new Headers({
        'Content-Type': type,
        'Content-Length': String(size),
        // Names of assets contain a hash of their content.
        'Cache-Control': path.startsWith('assets/') ? 'public, max-age=31536000, immutable' : 'no-cache',
        'Cross-Origin-Resource-Policy': 'same-origin',
        ETag: `"${size.toString(36)}-${Math.floor(modified).toString(36)}${suffix}"`,
        Vary: 'Accept-Encoding',
      })
      if (encoding) headers.set('Content-Encoding', encoding)
      return new Response(toWebStream(file.createReadStream()), { headers })
    }
    return null
  },
})
