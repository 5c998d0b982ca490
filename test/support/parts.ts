// Multipart bodies as tracing clients write them.
import { type App, type Reply, send, type Tenant } from './app.ts'

export type SentPart = { name: string; content: string | Uint8Array<ArrayBuffer>; headers: string[] }
const BOUNDARY = '----LangSmithFormBoundary0123456789'
export const MULTIPART = `multipart/form-data; boundary=${BOUNDARY}`

const byteLength = (content: SentPart['content']) => Buffer.byteLength(content)

/** The form of the client for JavaScript: the length is a parameter. */
export const part = (
  name: string,
  content: object | string | Uint8Array<ArrayBuffer>,
  type = 'application/json',
): SentPart => {
  const bytes = typeof content === 'string' || content instanceof Uint8Array ? content : JSON.stringify(content)
  return { name, content: bytes, headers: [`Content-Type: ${type}; length=${byteLength(bytes)}`] }
}

/** The form of the client for Python: the length is a header. */
export const pythonPart = (name: string, content: object): SentPart => {
  const json = JSON.stringify(content)
  return { name, content: json, headers: ['Content-Type: application/json', `Content-Length: ${byteLength(json)}`] }
}

export const joinParts = (parts: SentPart[], boundary = BOUNDARY): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(
    Buffer.concat([
      ...parts.flatMap(({ name, content, headers }) => [
        Buffer.from(
          `--${boundary}\r\n${[`Content-Disposition: form-data; name="${name}"`, ...headers, '', ''].join('\r\n')}`,
        ),
        Buffer.from(content as string),
        Buffer.from('\r\n'),
      ]),
      Buffer.from(`--${boundary}--\r\n`),
    ]),
  )

export const sendParts = (
  { key }: Pick<Tenant, 'key'>,
  parts: SentPart[],
  headers: Record<string, string> = {},
  app?: App,
): Promise<Reply> =>
  send('POST', '/runs/multipart', {
    raw: joinParts(parts),
    headers: { 'X-Api-Key': key, 'Content-Type': MULTIPART, ...headers },
    ...(app && { app }),
  })

/** The place of a root, or of the last of these runs. */
export const orderOf = (...ids: string[]): string => ids.map(id => `20261124T090000000000Z${id}`).join('.')
