// Starts the server of graphs, with models by the variables that clients of providers read. It runs as the application,
// beside the copy of src/graphs/, and imports nothing of the agent.
import { randomBytes, timingSafeEqual } from 'node:crypto'
import { readFileSync } from 'node:fs'
import * as http from 'node:http'
import * as https from 'node:https'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'

type Models = { url: string; tokenFile: string }

/** The variables of a provider, by the variable with the id of its model configuration. */
const PROVIDERS: Record<string, { url: string; key: string }> = {
  OPENAI_MODEL_ID: { url: 'OPENAI_BASE_URL', key: 'OPENAI_API_KEY' },
  ANTHROPIC_MODEL_ID: { url: 'ANTHROPIC_BASE_URL', key: 'ANTHROPIC_API_KEY' },
}
/** Headers of one connection. */
const HOP_HEADERS = ['host', 'connection', 'keep-alive', 'transfer-encoding', 'upgrade', 'te', 'trailer']

/**
 * A server on the loopback address whose key stays, in front of models whose tokens last for minutes. Other
 * applications of the machine do not know the key.
 */
async function openModels({ url, tokenFile }: Models): Promise<{ url: string; key: string }> {
  const key = `models-${randomBytes(24).toString('base64url')}`
  const server = http.createServer((req, res) => {
    const sent = req.headers['x-api-key'] ?? req.headers.authorization?.replace(/^Bearer /i, '')
    if (!isSame(`${sent}`, key)) return void res.writeHead(401).end()
    const target = new URL(url)
    const { request } = target.protocol === 'https:' ? https : http
    const token = readToken(tokenFile)
    // It appears within seconds of the first start.
    if (token === null) return void res.writeHead(503, { 'Retry-After': '5' }).end()
    const headers: http.OutgoingHttpHeaders = { authorization: `Bearer ${token}` }
    for (const [name, value] of Object.entries(req.headers))
      if (![...HOP_HEADERS, 'authorization', 'x-api-key'].includes(name)) headers[name] = value
    const path = `${target.pathname.replace(/\/$/, '')}${req.url}`
    const out = request({ ...urlParts(target), method: req.method, path, headers }, answer => {
      const answered = Object.entries(answer.headers).filter(([name]) => !HOP_HEADERS.includes(name))
      res.writeHead(answer.statusCode!, Object.fromEntries(answered))
      answer.pipe(res)
      answer.once('error', () => res.destroy())
    })
    out.once('error', () => (res.headersSent ? res.destroy() : res.writeHead(502).end()))
    res.once('close', () => out.destroy())
    req.pipe(out)
  })
  await new Promise<void>(listening => server.listen(0, '127.0.0.1', listening))
  server.unref()
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, key }
}

function readToken(file: string): string | null {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch {
    return null
  }
}

const urlParts = ({ protocol, hostname, port }: URL) => ({ protocol, hostname, port })

function isSame(sent: string, key: string): boolean {
  const [a, b] = [Buffer.from(sent), Buffer.from(key)]
  return a.length === b.length && timingSafeEqual(a, b)
}

/** Variables of the application's own win. */
export async function addModels(env: Record<string, string | undefined>): Promise<void> {
  const wanted = Object.entries(PROVIDERS).filter(([id, { url, key }]) => env[id] && !env[url] && !env[key])
  const { SLIPWAY_MODELS_URL: url, SLIPWAY_MODEL_TOKEN_FILE: tokenFile } = env
  if (wanted.length === 0 || !url || !tokenFile) return
  const models = await openModels({ url, tokenFile })
  for (const [id, names] of wanted) {
    env[names.url] = `${models.url}/${env[id]}`
    env[names.key] = models.key
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await addModels(process.env)
  await import(new URL('./graphs/main.ts', import.meta.url).href)
}
