// Answers a request for a site with a file of the agent's copy.
// Not by a library such as `send` or `sirv`: they look for the path in a folder, at each request or at the start, and
// know neither rules nor files that were compressed and hashed at the build.
import * as fs from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { pipeline } from 'node:stream'
import { respondProblem } from '../system/problem-response.ts'
import { answerSite } from './site-answer.ts'
import { contentFile, type OpenSite } from './site-manifest.ts'

/** Takes and returns names and values in turn. */
export type EditHeaders = (headers: string[]) => string[]

/** Returns once the headers are written. The body follows as fast as the client reads. False: the file is gone. */
export async function serveSite(
  req: IncomingMessage,
  res: ServerResponse,
  site: OpenSite,
  edit: EditHeaders = headers => headers,
): Promise<boolean> {
  const { method = '', url = '', headers } = req
  const { status, headers: answered, body, problem } = answerSite(site, { method, url, headers })
  const hasBody = body !== null && body.end >= body.start && method !== 'HEAD'
  const file = hasBody
    ? await fs.promises.open(contentFile(site.folder, body.content, body.encoding)).catch(() => null)
    : undefined
  if (file === null) return false
  if (res.destroyed) {
    await file?.close()
    return true
  }
  const pairs = Object.entries(answered).flatMap(([name, values]) => [values].flat().flatMap(value => [name, value]))
  const edited = edit(pairs)
  for (let i = 0; i < edited.length; i += 2) res.appendHeader(edited[i]!, edited[i + 1]!)
  if (problem !== undefined) respondProblem(res, status, problem)
  else if (!file) res.writeHead(status).end()
  else {
    res.writeHead(status)
    pipeline(file.createReadStream({ start: body!.start, end: body!.end }), res, () => {})
  }
  return true
}
