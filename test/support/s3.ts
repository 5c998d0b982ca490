// An S3 store on this machine: s3rver, with checks of signatures and deletion of unfinished uploads, which it lacks.
import { createHash, createHmac } from 'node:crypto'
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import S3rver from 's3rver'
import { readBucketSettings } from '../../src/agent/archive/settings.ts'

const BUCKET = 'archives'
const ACCESS_KEY = { id: 'S3RVER', secret: 'hunter2/secret+of=the-store' }

export type S3 = Awaited<ReturnType<typeof startS3>>
/** Answers in place of the store, or leaves it to the store. */
type Interceptor = (request: IncomingMessage, response: ServerResponse) => boolean

export async function startS3(directory: string) {
  const store = new S3rver({ directory, silent: true, configureBuckets: [{ name: BUCKET }] })
  await store.configureBuckets()
  listAllDepths(store)
  const handle = store.callback()
  const unfinished = join(directory, BUCKET, '._S3rver_uploads')
  const requests: string[] = []
  let intercept: Interceptor = () => false

  const server = createServer((request, response) => {
    const { method, url = '' } = request
    const { searchParams } = new URL(url, 'http://s3')
    requests.push([method, ...searchParams.keys()].join(' '))
    if (intercept(request, response)) return
    const upload = searchParams.get('uploadId')
    if (!isSigned(request)) refuseRequest(request, response, 403, 'SignatureDoesNotMatch')
    else if (method === 'DELETE' && upload) {
      rmSync(join(unfinished, upload), { recursive: true, force: true })
      response.writeHead(204).end()
    } else handle(request, response)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    endpoint,
    settings: {
      UPLOADS_S3_ENDPOINT: endpoint,
      UPLOADS_S3_BUCKET: BUCKET,
      UPLOADS_S3_ACCESS_KEY_ID: ACCESS_KEY.id,
      UPLOADS_S3_SECRET_ACCESS_KEY: ACCESS_KEY.secret,
    },
    /** The method and the names of the query, in order. */
    requests: requests,
    intercept: (by: Interceptor) => {
      intercept = by
    },
    unfinished: () => (existsSync(unfinished) ? readdirSync(unfinished) : []),
    close: () => new Promise(resolve => server.close(resolve).closeAllConnections()),
  }
}

/** The settings, as an agent reads them. */
export const backupSettings = ({ settings }: S3, prefix?: string) =>
  readBucketSettings({
    ...Object.fromEntries(Object.entries(settings).map(([name, value]) => [name.replace('UPLOADS', 'BACKUPS'), value])),
    BACKUPS_S3_PREFIX: prefix,
  })!

export function refuseRequest(request: IncomingMessage, response: ServerResponse, status: number, code: string): void {
  request.resume()
  response.writeHead(status, { 'Content-Type': 'application/xml' })
  response.end(`<Error><Code>${code}</Code><Message>The key ${ACCESS_KEY.secret} is not good</Message></Error>`)
}

/** With a delimiter, s3rver leaves out folders that have no files of their own. */
function listAllDepths({ store }: S3rver): void {
  const list = store.listObjects.bind(store)
  store.listObjects = async (bucket, { delimiter, ...options }) => {
    const { objects, ...rest } = await list(bucket, options)
    const depth = (options.prefix ?? '').length
    const endOf = (key: string) => (delimiter ? key.indexOf(delimiter, depth) : -1)
    const folders = objects.flatMap(({ key }) => (endOf(key) < 0 ? [] : [key.slice(0, endOf(key) + 1)]))
    return { ...rest, objects: objects.filter(({ key }) => endOf(key) < 0), commonPrefixes: [...new Set(folders)] }
  }
}

const hmac = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text).digest()

/** Checks Signature Version 4. */
function isSigned({ method, url = '', headers }: IncomingMessage): boolean {
  const [, id, scope = '', names = '', signature] =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/([^,]+), SignedHeaders=([^,]+), Signature=(\w+)$/.exec(
      headers.authorization ?? '',
    ) ?? []
  const [path, query = ''] = url.split('?')
  const canonical = [
    method,
    path,
    query
      .split('&')
      .filter(Boolean)
      .map(pair => (pair.includes('=') ? pair : `${pair}=`))
      .sort()
      .join('&'),
    ...names.split(';').map(name => `${name}:${headers[name]}`),
    '',
    names,
    headers['x-amz-content-sha256'],
  ].join('\n')
  const digest = createHash('sha256').update(canonical).digest('hex')
  const signed = ['AWS4-HMAC-SHA256', headers['x-amz-date'], scope, digest].join('\n')
  const key = scope.split('/').reduce<string | Buffer>(hmac, `AWS4${ACCESS_KEY.secret}`)
  return id === ACCESS_KEY.id && signature === hmac(key, signed).toString('hex')
}
