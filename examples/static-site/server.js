// Serves the files of public/ with content types and cache validators, and nothing outside of that folder.
import { createReadStream } from 'node:fs'
import { realpath, stat } from 'node:fs/promises'
import { createServer } from 'node:http'
import { extname, join, sep } from 'node:path'

const ROOT = await realpath(new URL('public', import.meta.url))
const TYPES = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.jpg': 'image/jpeg',
  '.webp': 'image/webp',
  '.ico': 'image/x-icon',
  '.txt': 'text/plain; charset=utf-8',
  '.woff2': 'font/woff2',
  '.pdf': 'application/pdf',
}

async function find(pathname) {
  for (const path of [pathname, `${pathname}.html`, join(pathname, 'index.html')]) {
    const file = await realpath(join(ROOT, path)).catch(() => undefined)
    if (!file?.startsWith(ROOT + sep)) continue
    const found = await stat(file)
    if (found.isFile())
      return { file, size: found.size, etag: `"${found.size.toString(36)}-${found.mtimeMs.toString(36)}"` }
  }
}

const server = createServer(async (req, res) => {
  const refuse = (status, text) => res.writeHead(status, { 'Content-Type': 'text/plain' }).end(`${text}\n`)
  if (req.method !== 'GET' && req.method !== 'HEAD') return refuse(405, 'GET only')
  let found
  try {
    found = await find(decodeURIComponent(new URL(req.url, 'http://localhost').pathname))
  } catch {
    return refuse(400, 'That is no path')
  }
  if (!found) return refuse(404, 'Not found')
  const headers = { ETag: found.etag, 'Cache-Control': 'no-cache' }
  if (req.headers['if-none-match'] === found.etag) return res.writeHead(304, headers).end()
  const type = TYPES[extname(found.file)] ?? 'application/octet-stream'
  res.writeHead(200, { ...headers, 'Content-Type': type, 'Content-Length': found.size })
  if (req.method === 'HEAD') return res.end()
  createReadStream(found.file).pipe(res)
})
server.listen(process.env.PORT ?? 3000, () => console.log(`Listening on ${server.address().port}`))
process.once('SIGTERM', () => server.close())
